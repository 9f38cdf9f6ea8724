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


def test_hosts_without_data_add_no_correction_and_take_over_z():
    """Uses pipelines of tf.data. The next epoch starts from z everywhere, as after a restart."""
    elements, learners, options = [2, 5], 2, LAGGING | {"sync_period": 2}
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
