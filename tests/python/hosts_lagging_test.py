"""EASGD and SMA with a lagging centre over several hosts, against NumPy's model of all
learners."""

import numpy as np
import pytest

from tests.python.host_programs import MOMENTUM, RATE, ROWS, rows_of, weights_of
from tests.python.hosts import Hosts

LAGGING = {"centre": "lagging", "momentum": 0.9}


class Model:
    """CROSSBOW's Algorithm 1 (ALGORITHMS.md, 1b) over the learners of all hosts, in float64.

    `w` is [hosts, learners, weights].
    """

    def __init__(self, hosts, learners, mu, momentum=MOMENTUM, period=1, ema_decay=0.0):
        self.w = np.tile(np.append(weights_of(0), 0.0), (hosts, learners, 1))
        self.slots = np.zeros_like(self.w)
        self.z = self.w[0, 0].copy()
        self.z_prev, self.average = self.z.copy(), self.z.copy()
        self.alpha, self.mu, self.momentum = 1 / (hosts * learners), mu, momentum
        self.period, self.ema_decay = period, ema_decay
        self.iterations = self.moves = 0

    def train(self, batches):
        """Trains in an iteration on these batches by host, None for no task."""
        self.iterations += 1
        due = self.iterations % self.period == 0
        corrections = np.zeros_like(self.z)
        for host, batch in enumerate(batches):
            if batch is None:
                continue
            for j, rows in enumerate(np.array_split(np.arange(ROWS), self.w.shape[1])):
                w, slot = self.w[host, j], self.slots[host, j]
                inputs = np.column_stack([batch[0][rows], np.ones(len(rows))])
                gradient = 2 * inputs.T @ (inputs @ w - batch[1][rows]) / len(rows)
                slot[:] = self.momentum * slot + gradient
                correction = self.alpha * (w - self.z) if due else np.zeros_like(w)
                corrections += correction
                w[:] = w - RATE * slot - correction
        if not due:
            return
        self.z, self.z_prev = self.z + corrections + self.mu * (self.z - self.z_prev), self.z
        d = min(self.ema_decay, (1 + self.moves) / (10 + self.moves))
        self.moves += 1
        self.average = d * self.average + (1 - d) * self.z

    def restart(self):
        """Starts all replicas from z, which has no momentum."""
        self.w[:] = self.z
        self.z_prev = self.z.copy()


def close(read, expected):
    """Checks that z of a host is as expected, except for rounding."""
    np.testing.assert_allclose(np.append(*read), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("hosts", "learners", "synchroniser", "options"),
    [
        (2, 2, "SMA", LAGGING),
        (4, 1, "SMA", LAGGING),
        (2, 2, "EASGD", {}),
        (4, 1, "EASGD", {"sync_period": 3}),
        (2, 2, "SMA", LAGGING | {"sync_period": 2, "ema_decay": 0.75}),
    ],
)
def test_z_is_moved_by_the_corrections_of_all_hosts_learners(
    hosts, learners, synchroniser, options
):
    with Hosts(hosts, "trains", learners, 20, options, synchroniser) as running:
        results = running.results()
    rest = {"period": options.get("sync_period", 1), "ema_decay": options.get("ema_decay", 0.0)}
    model = Model(hosts, learners, options.get("momentum", 0.0), **rest)
    expected = []
    for iteration in range(20):
        model.train([rows_of(host, iteration) for host in range(hosts)])
        if iteration % 5 == 4:
            expected.append(model.average)
    for result, w in zip(results, model.w):
        z = np.array([np.append(*read) for read in result["z"]])
        np.testing.assert_allclose(z, expected, rtol=1e-9)
        assert result["z"] == results[0]["z"], "the same bits on all hosts"
        np.testing.assert_allclose([np.append(*r) for r in result["replicas"]], w, rtol=1e-9)
        assert result["counts"] == [20, 20 * hosts * learners, 20 * hosts * ROWS]
        assert result["synchroniser"] == synchroniser


@pytest.mark.parametrize(
    ("elements", "learners", "options"),
    [([7, 4], 2, LAGGING), ([2, 5], 2, LAGGING | {"sync_period": 2}), ([4, 4, 3, 4], 1, LAGGING)],
)
def test_hosts_without_data_add_no_correction_and_take_over_z(elements, learners, options):
    """Uses pipelines of tf.data. The next epoch starts from z everywhere, as after a restart."""
    arguments = learners, elements, 2, "SMA", 1, options
    with Hosts(len(elements), "pipelines", *arguments) as running:
        results = running.results()
    model = Model(len(elements), learners, 0.9, period=options.get("sync_period", 1))
    for epoch in range(2):
        for k in range(max(elements)):
            model.train([rows_of(h, k) if k < n else None for h, n in enumerate(elements)])
        for result in results:
            close(result["z"][epoch], model.z)
        model.restart()
    for host, result in enumerate(results):
        assert result["z"] == results[0]["z"], "the same bits on all hosts"
        assert result["runs"] == [elements[host]] * 2
        tasks = 2 * sum(elements)
        assert result["counts"] == [2 * max(elements), tasks * learners, tasks * ROWS]


def test_a_host_that_has_closed_its_session_adds_no_correction():
    """Also if the others do not correct in every iteration."""
    options = LAGGING | {"sync_period": 3}
    with Hosts(2, "leaves", [4, 11], "SMA", options) as running:
        first, second = running.results()
    model = Model(2, 1, 0.9, period=3)
    for run in range(11):
        model.train([rows_of(0, run) if run < 4 else None, rows_of(1, run)])
        if run == 3:
            close(first["z"], model.z)
    close(second["z"], model.z)


@pytest.mark.parametrize("period", [1, 2])
def test_an_iteration_that_fails_on_one_host_is_discarded_on_all(period):
    """Host 1 learns of it in its own run; the others in their next, which has no effect."""
    options = LAGGING | {"sync_period": period}
    with Hosts(2, "fails", 2, 8, [[1, 3]], "SMA", 1, options) as running:
        first, second = running.results()
    assert list(second["errors"]) == ["3"]
    assert list(first["errors"]) == ["4"]
    model = Model(2, 2, 0.9, momentum=0.0, period=period)
    for run in range(3):
        model.train([rows_of(0, run), rows_of(1, run)])
        close(first["z"][run], model.z)
        close(second["z"][run], model.z)
    for result, run in ((first, 3), (first, 4), (second, 3)):
        close(result["z"][run], model.z)
    model.restart()
    for run in range(5, 8):
        model.train([rows_of(0, run), rows_of(1, run - 1)])
        close(first["z"][run], model.z)
        assert first["z"][run] == second["z"][run - 1], "the same bits on all hosts"


@pytest.mark.parametrize(
    ("hosts", "learners", "synchroniser", "options"),
    [(2, 2, "SMA", LAGGING), (2, 2, "EASGD", {}), (4, 1, "SMA", LAGGING)],
)
def test_keras_models_have_a_lagging_centre_of_all_hosts(hosts, learners, synchroniser, options):
    arguments = learners, 4, 3, False, synchroniser, options
    with Hosts(hosts, "keras_fits", *arguments) as running:
        results = running.results()
    model = Model(hosts, learners, options.get("momentum", 0.0))
    for epoch in range(3):
        for batch in range(4):
            model.train([rows_of(host, batch) for host in range(hosts)])
        for result in results:
            np.testing.assert_allclose(np.append(*result["z"][epoch]), model.z, rtol=1e-5)
            assert result["z"] == results[0]["z"], "the same bits on all hosts"
