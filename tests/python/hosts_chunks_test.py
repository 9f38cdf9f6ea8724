"""The number of gradients in a message to the other hosts changes only the time."""

import pytest

import tensorbow
from tests.python.hosts import Hosts

HOSTS = ["a:1", "b:2"]
GRADIENTS = 12  # of the program
# A search tries 1 to 10 gradients, each in ten iterations; 20 are more than there are.
SEARCHED = 130


def _results(learners, chunk, runs):
    with Hosts(2, "chunks", learners, chunk, runs) as running:
        return running.results()


def test_a_number_of_gradients_in_a_chunk_gives_the_same_bits():
    whole = _results(2, None, 12)
    assert whole[0] == whole[1] and whole[0]["chunk"] == 0
    for result in _results(2, 5, 12):
        assert result == {"bits": whole[0]["bits"], "chunk": 5}


def test_a_search_ends_with_the_same_number_on_all_hosts_and_the_same_bits():
    whole = _results(1, None, SEARCHED)
    first, second = _results(1, "search", SEARCHED)
    assert first == second
    assert 1 <= first["chunk"] <= GRADIENTS
    assert first["bits"] == whole[0]["bits"]


@pytest.mark.parametrize(
    ("chunk", "error"), [(0, ValueError), (10_001, ValueError), (2.0, TypeError), (True, TypeError)]
)
def test_a_chunk_that_is_no_number_of_gradients_is_refused(chunk, error):
    with pytest.raises(error, match="Cluster: chunk must be"):
        tensorbow.Cluster(HOSTS, 0, chunk=chunk)


@pytest.mark.parametrize(("synchroniser", "period"), [(tensorbow.SMA(), 1), ("auto", 4)])
def test_models_do_not_travel_in_chunks_of_gradients(synchroniser, period):
    cluster = tensorbow.Cluster(HOSTS, 0, chunk="search", sync_period=period)
    with pytest.raises(ValueError, match="is about gradients, and SMA"):
        tensorbow.Options(cluster=cluster, synchroniser=synchroniser)
    assert tensorbow.Options(cluster=tensorbow.Cluster(HOSTS, 0, chunk=3)).host_chunk == 3
