"""Sessions that train together on several hosts, against NumPy's model of all learners."""

import signal

import numpy as np
import pytest

from tests.python.host_programs import MOMENTUM, RATE, ROWS, rows_of, weights_of
from tests.python.hosts import Hosts


class Model:
    """SMA (ALGORITHMS.md, 1a) over the learners of all hosts, in float64."""

    def __init__(self, hosts, learners, alpha=None, period=1, momentum=MOMENTUM):
        self.hosts, self.learners, self.period = hosts, learners, period
        self.momentum, self.present = momentum, range(hosts)
        self.w = np.array([np.append(weights_of(0), 0.0)] * (hosts * learners))
        self.slots = np.zeros_like(self.w)
        self.alpha = alpha or 1 / len(self.w)
        self.iterations = 0

    @property
    def z(self):
        return self.w.reshape(self.hosts, self.learners, -1)[list(self.present)].mean((0, 1))

    def train(self, batches):
        """Trains in an iteration on these batches by host, None for no task."""
        z = self.z
        absent = set(range(self.hosts)) - set(self.present)
        self.present = [host for host, batch in enumerate(batches) if batch is not None]
        self.iterations += 1
        due = self.iterations % self.period == 0
        for host in self.present:
            x, y = batches[host]
            shards = np.array_split(np.arange(ROWS), self.learners)
            for j, shard in enumerate(shards, start=host * self.learners):
                if host in absent:
                    self.w[j] = z
                inputs = np.column_stack([x[shard], np.ones(len(shard))])
                gradient = 2 * inputs.T @ (inputs @ self.w[j] - y[shard]) / len(shard)
                self.slots[j] = self.momentum * self.slots[j] + gradient
                correction = self.alpha * (self.w[j] - z) if due else 0
                self.w[j] = self.w[j] - RATE * self.slots[j] - correction


@pytest.mark.parametrize(
    ("hosts", "learners", "options"),
    [(3, 1, {}), (2, 2, {"alpha": 0.5, "sync_period": 3})],
)
def test_z_is_the_mean_of_all_hosts_learners(hosts, learners, options):
    with Hosts(hosts, "trains", learners, 20, options) as running:
        results = running.results()
    model = Model(hosts, learners, options.get("alpha"), options.get("sync_period", 1))
    expected = []
    for iteration in range(20):
        model.train([rows_of(host, iteration) for host in range(hosts)])
        if iteration % 5 == 4:
            expected.append(model.z)
    for host, result in enumerate(results):
        z = np.array([np.append(w, b) for w, b in result["z"]])
        np.testing.assert_allclose(z, expected, rtol=1e-10)
        assert result["z"] == results[0]["z"], "the same bits on all hosts"
        replicas = np.array([np.append(w, b) for w, b in result["replicas"]])
        mine = model.w[host * learners : (host + 1) * learners]
        np.testing.assert_allclose(replicas, mine, rtol=1e-10)
        assert result["counts"] == [20, 20 * hosts * learners, 20 * hosts * ROWS]


def close(result, expected):
    """Checks that z of a host is as expected, except for rounding."""
    np.testing.assert_allclose(np.append(*result), expected, rtol=1e-10, atol=1e-12)


def test_an_iteration_that_fails_on_one_host_is_discarded_on_all():
    """Host 1 learns of it in its own run; the others in their next, which has no effect.

    It does not count among the iterations of which every second corrects.
    """
    period = 2
    options = {"sync_period": period}
    with Hosts(2, "fails", 2, 8, [[1, 3]], "SMA", 1, options) as running:
        first, second = running.results()
    assert list(second["errors"]) == ["3"]
    assert "x is not a number" in second["errors"]["3"]
    assert list(first["errors"]) == ["4"]
    assert first["errors"]["4"].startswith("AbortedError")
    assert "a learning task of host 1 has failed" in first["errors"]["4"]
    model = Model(2, 2, period=period, momentum=0.0)
    for run in range(3):
        model.train([rows_of(0, run), rows_of(1, run)])
        close(first["z"][run], model.z)
        close(second["z"][run], model.z)
    for result, run in ((first, 3), (first, 4), (second, 3)):
        close(result["z"][run], model.z)
    model.w[:] = model.z  # all replicas restart from z
    for run in range(5, 8):
        model.train([rows_of(0, run), rows_of(1, run - 1)])
        close(first["z"][run], model.z)
        close(second["z"][run - 1], model.z)
    # Host 1 has trained once more, and host 0 leaves.
    assert first["counts"] == [6, 24, 72]


def test_a_host_without_data_contributes_nothing_and_stays():
    elements = [2, 5]
    with Hosts(2, "pipelines", 1, elements, 2) as running:
        results = running.results()
    model = Model(2, 1)
    for epoch in range(2):
        for k in range(max(elements)):
            model.train([rows_of(h, k) if k < n else None for h, n in enumerate(elements)])
        for result in results:
            close(result["z"][epoch], model.z)
        # The next epoch starts from z everywhere: a host that stays without data has it.
        model.w[:] = model.z
        model.present = range(2)
    for host, result in enumerate(results):
        assert result["z"] == results[0]["z"]
        assert result["runs"] == [elements[host]] * 2
        iterations = 2 * max(elements)
        assert result["counts"] == [iterations, 2 * sum(elements), 2 * sum(elements) * ROWS]


def test_a_host_that_has_closed_its_session_contributes_nothing():
    with Hosts(2, "leaves", [3, 6]) as running:
        first, second = running.results()
    model = Model(2, 1)
    for run in range(6):
        model.train([rows_of(0, run) if run < 3 else None, rows_of(1, run)])
        if run == 2:
            close(first["z"], model.z)
    close(second["z"], model.z)
    assert (first["iterations"], second["iterations"]) == (3, 6)


def test_a_host_may_look_in_a_session_of_its_own():
    """The others, which train on, do not wait for a session that does not train."""
    with Hosts(2, "looks_alone", 4) as running:
        first, second = (result["found"] for result in running.results())
    model = Model(2, 1)
    for run in range(4):
        model.train([rows_of(0, run), rows_of(1, run)])
    for found in (first, second):
        assert found[0] == found[1] == first[0]
        close(found[0], model.z)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("variables", "have different variables, optimisers, options"),
        ("options", "have different variables, optimisers, options"),
        ("period", "have different variables, optimisers, options"),
        ("learners", "have different variables, optimisers, options"),
        ("writes", "host 0 has trained while host 1 writes variables, starts"),
    ],
)
def test_hosts_that_do_different_things_are_told_so(how, message):
    with Hosts(2, "differs", how) as running:
        results = running.results()
    for result in results:
        assert message in result
        assert "All hosts have to run the same program" in result


def test_a_host_that_hangs_in_training_is_named():
    with Hosts(3, "trains_on") as running:
        for rank in range(3):
            running.await_mark(rank)
        running.signal(0, signal.SIGSTOP)
        others = [running.result(rank) for rank in (1, 2)]
    for result in others:
        assert result["error"].startswith("UnavailableError")
        assert f"host 0 ({running.addresses[0]}) does not answer" in result["error"]
        assert result["seconds"] < 5


def test_a_program_that_ends_waits_for_the_last_iteration_of_the_others():
    """Also if multiprocessing has started the program, as here."""
    with Hosts(2, "ends") as running:
        first, _ = running.results()
    model = Model(2, 1)
    for run in range(3):
        model.train([rows_of(0, run), rows_of(1, run)])
    np.testing.assert_allclose(first["z"], model.z[:-1], rtol=1e-12)
    assert first["told"] == []


def test_hosts_whose_program_fails_say_why():
    with Hosts(3, "program_fails") as running:
        results = running.results()
    for rank in (0, 2):
        assert "host 1 has failed: RuntimeError: disk full" in results[rank]


def test_keras_models_are_averaged_over_hosts():
    learners = 2
    with Hosts(2, "keras_fits", learners, 4, 3) as running:
        results = running.results()
    model = Model(2, learners)
    for epoch in range(3):
        for batch in range(4):
            model.train([rows_of(host, batch) for host in range(2)])
        for result in results:
            np.testing.assert_allclose(np.append(*result["z"][epoch]), model.z, rtol=1e-5)
            assert result["z"] == results[0]["z"], "the same bits on all hosts"
