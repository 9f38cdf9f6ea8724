"""Hosts that are averaged in every H-th iteration, against NumPy."""

import numpy as np
import pytest

from tests.python.host_programs import MOMENTUM, RATE, ROWS, rows_of, weights_of
from tests.python.hosts import Hosts


class Model:
    """SMA (ALGORITHMS.md, 1a) in float64. The centre is the mean of all hosts' learners after every
    H-th iteration, and otherwise, for each host, of its own.

    `w` is [hosts, learners, weights]. `z` is by host: the target of its next corrections, and the
    value that it reads.
    """

    def __init__(self, hosts, learners, period, alpha=None, momentum=MOMENTUM):
        self.period, self.momentum = period, momentum
        self.w = np.tile(np.append(weights_of(0), 0.0), (hosts, learners, 1))
        self.slots = np.zeros_like(self.w)
        self.alphas = {True: alpha or 1 / (hosts * learners), False: alpha or 1 / learners}
        self.z = self.w.mean(1)
        self.meets = True  # whether z is the mean of all hosts' learners
        self.absent: set[int] = set()
        self.iterations = 0

    def train(self, batches):
        """Trains in an iteration on these batches by host, None for no task."""
        alpha = self.alphas[self.meets]
        for host, batch in enumerate(batches):
            if batch is None:
                continue
            if host in self.absent:
                self.w[host] = self.z[host]
            for j, rows in enumerate(np.array_split(np.arange(ROWS), self.w.shape[1])):
                inputs = np.column_stack([batch[0][rows], np.ones(len(rows))])
                errors = inputs @ self.w[host, j] - batch[1][rows]
                gradient = 2 * inputs.T @ errors / len(rows)
                self.slots[host, j] = self.momentum * self.slots[host, j] + gradient
                correction = alpha * (self.w[host, j] - self.z[host])
                self.w[host, j] = self.w[host, j] - RATE * self.slots[host, j] - correction
        self.absent = {host for host, batch in enumerate(batches) if batch is None}
        present = sorted(set(range(len(batches))) - self.absent)
        self.iterations += 1
        self.meets = self.iterations % self.period == 0
        if self.meets:
            self.z[:] = self.w[present].mean((0, 1))
        else:
            self.z[present] = self.w[present].mean(1)

    def restart(self):
        """Starts all replicas of a host from its z."""
        self.w[:] = self.z[:, None]
        self.absent = set()


def close(read, expected):
    """Checks that a host's reads are as expected, except for rounding."""
    np.testing.assert_allclose(np.append(*read), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("hosts", "learners", "period", "options"),
    [(2, 2, 3, {"alpha": 0.5}), (2, 2, 10, {"ema_decay": 0.75})],
)
def test_z_is_the_mean_of_all_now_and_then_and_else_of_a_hosts_own(
    hosts, learners, period, options
):
    """A read returns the host's own mean between two merges, and the same bits on all hosts at
    one."""
    with Hosts(hosts, "trains", learners, 20, options, "SMA", False, period) as running:
        results = running.results()
    model = Model(hosts, learners, period, options.get("alpha"))
    average = model.z.copy()
    for iteration in range(20):
        model.train([rows_of(host, iteration) for host in range(hosts)])
        d = min(options.get("ema_decay", 0), (1 + iteration) / (10 + iteration))
        average = d * average + (1 - d) * model.z
        if iteration % 5 != 4:
            continue
        for host, result in enumerate(results):
            close(result["z"][iteration // 5], average[host])
        first, second = (result["z"][iteration // 5] for result in results[:2])
        assert (first == second) == (model.meets and "ema_decay" not in options)
    for result, w in zip(results, model.w):
        np.testing.assert_allclose([np.append(*r) for r in result["replicas"]], w, rtol=1e-10)
        assert result["counts"] == [20, 20 * hosts * learners, 20 * hosts * ROWS]


def test_an_iteration_that_is_discarded_does_not_count_for_the_next_meeting():
    """Replicas continue from their own host's z."""
    with Hosts(2, "fails", 2, 8, [[1, 3]], "SMA", 2) as running:
        first, second = running.results()
    assert list(second["errors"]) == ["3"]
    assert list(first["errors"]) == ["4"]
    model = Model(2, 2, 2, momentum=0.0)
    for run in range(8):
        if run == 3:
            close(second["z"][3], model.z[1])
        elif run == 4:
            close(first["z"][3], model.z[0])
            close(first["z"][4], model.z[0])
            model.restart()
        if run < 3:
            model.train([rows_of(0, run), rows_of(1, run)])
            close(second["z"][run], model.z[1])
        if run > 4:
            model.train([rows_of(0, run), rows_of(1, run - 1)])
            close(second["z"][run - 1], model.z[1])
        close(first["z"][run], model.z[0])
        assert (first["z"][run] == second["z"][run - (run > 4)]) == model.meets or run in (3, 4)
