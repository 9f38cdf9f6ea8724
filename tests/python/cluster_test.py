"""Sums over the hosts of a cluster: exact, equal on all hosts, with errors that name one."""

import signal

import pytest
import tensorflow as tf

from tensorbow import _native
from tests.python.hosts import Hosts

# The last two are added up by parts, where there are more than two hosts.
CASES = [["float32", 1], ["float64", 1000], ["int64", 7], ["float32", 270_001], ["int64", 40_003]]


@pytest.mark.parametrize("count", [2, 4])
def test_sums_are_made_in_the_order_of_the_ranks(count):
    with Hosts(count, "sums", CASES, 5) as hosts:
        assert hosts.results() == [None] * count


def test_hosts_that_add_up_different_numbers_of_values_are_told():
    with Hosts(2, "different_sums") as hosts:
        for error in hosts.results():
            assert "adds up another number of values: got " in error
            assert "bytes, wanted " in error


def test_a_process_joins_again():
    with Hosts(2, "one_after_the_other") as hosts:
        assert hosts.results() == [[3000.0, 21.0]] * 2


@pytest.mark.parametrize(("how", "victim"), [(signal.SIGKILL, 0), (signal.SIGSTOP, 2)])
def test_a_host_that_dies_or_hangs_is_named_by_all_others(how, victim):
    with Hosts(3, "until_it_fails") as hosts:
        for rank in range(3):
            hosts.await_mark(rank)
        hosts.signal(victim, how)
        others = [hosts.result(rank) for rank in range(3) if rank != victim]
    for result in others:
        assert f"host {victim} ({hosts.addresses[victim]}) does not answer" in result["error"]
        assert result["later"] == result["error"], "what has failed stays failed"
        assert result["seconds"] < 5


@pytest.mark.parametrize(("count", "size"), [(2, 1), (3, 200_000), (4, 1000)])
def test_a_host_ends_the_cluster_for_all(count, size):
    with Hosts(count, "fail", size) as hosts:
        results = hosts.results()
    for result in results:
        assert "host 1 has had enough" in result["error"]
        assert result["seconds"] < 5


def test_a_host_that_fails_and_ends_is_heard_of():
    """Also by hosts that wait for no sum of its meanwhile."""
    with Hosts(3, "fail_and_end") as hosts:
        results = hosts.results()
    for rank in (0, 2):
        assert results[rank] == "host 1 has had enough"


def test_a_host_that_never_comes_is_named():
    """The others wait for `start_limit_seconds`, not for ever."""
    with Hosts(2, "join", 1.5) as hosts:
        hosts.processes[1].kill()
        error = hosts.result(0)
    assert "DeadlineExceededError: Some hosts of the cluster did not start within 1.5s" in error
    assert f"host 1 ({hosts.addresses[1]}) does not answer" in error


def test_a_port_that_is_taken_is_an_error():
    with Hosts(2, "port_is_taken") as hosts:
        results = hosts.results()
    for rank, (error, address) in enumerate(zip(results, hosts.addresses)):
        assert error.startswith(f"UnavailableError: Host {rank} cannot listen at {address}")


@pytest.mark.parametrize(
    ("addresses", "rank", "message"),
    [
        ([], 0, "a cluster without hosts"),
        (["a:1", "b:1"], 2, "host 2 of 2, wanted 0 to 1"),
        (["a:1", "b:1", "a:1"], 0, "the address a:1 twice"),
    ],
)
def test_a_cluster_that_makes_no_sense_is_refused(addresses, rank, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        _native.join_cluster(addresses, rank, 1, 4)
