"""S-SGD on several hosts, against NumPy's model of one learner that has all rows."""

import numpy as np
import pytest

from tests.python.host_programs import ADAM, MOMENTUM, RATE, ROWS, rows_of, weights_of
from tests.python.hosts import Hosts


class Model:
    """Gradient descent with momentum, or Adam, on the mean of the learners' gradients."""

    def __init__(self, learners, momentum=MOMENTUM, adam=False):
        self.learners, self.momentum, self.adam = learners, momentum, adam
        self.w = np.append(weights_of(0), 0.0)
        self.m, self.v = np.zeros_like(self.w), np.zeros_like(self.w)
        self.steps = 0

    def train(self, batches):
        """Trains in an iteration on these batches by host, None for no task."""
        gradients = []
        for x, y in filter(None, batches):
            for shard in np.array_split(np.arange(ROWS), self.learners):
                inputs = np.column_stack([x[shard], np.ones(len(shard))])
                errors = inputs @ self.w - y[shard]
                # A learner counts by its part of its host's rows.
                share = len(shard) * self.learners / ROWS
                gradients.append(share * 2 * inputs.T @ errors / len(shard))
        gradient = np.mean(gradients, 0)
        self.steps += 1
        if self.adam:
            b1, b2, epsilon = ADAM
            self.m = b1 * self.m + (1 - b1) * gradient
            self.v = b2 * self.v + (1 - b2) * gradient**2
            rate = RATE * np.sqrt(1 - b2**self.steps) / (1 - b1**self.steps)
            self.w = self.w - rate * self.m / (np.sqrt(self.v) + epsilon)
        else:
            self.m = self.momentum * self.m + gradient
            self.w = self.w - RATE * self.m


def close(result, expected):
    np.testing.assert_allclose(np.append(*result), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("hosts", "learners", "synchroniser", "adam"),
    [(3, 1, "SSGD", False), (2, 4, "auto", True)],
)
def test_hosts_update_with_the_mean_of_all_learners_gradients(hosts, learners, synchroniser, adam):
    with Hosts(hosts, "trains", learners, 20, {}, synchroniser, adam) as running:
        results = running.results()
    model = Model(learners, adam=adam)
    expected = []
    for iteration in range(20):
        model.train([rows_of(host, iteration) for host in range(hosts)])
        if iteration % 5 == 4:
            expected.append(model.w)
    for result in results:
        assert result["synchroniser"] == "SSGD"
        z = np.array([np.append(w, b) for w, b in result["z"]])
        # TensorFlow keeps powers of Adam's β in float32.
        np.testing.assert_allclose(z, expected, rtol=1e-6 if adam else 1e-9)
        assert result["z"] == results[0]["z"], "the same bits on all hosts"
        for replica in result["replicas"]:
            assert replica == result["z"][-1]
        assert result["counts"] == [20, 20 * hosts * learners, 20 * hosts * ROWS]


def test_a_failing_task_updates_nothing_on_any_host():
    learners = 2
    with Hosts(2, "fails", learners, 8, [[1, 3]], "SSGD") as running:
        first, second = running.results()
    assert list(second["errors"]) == ["3"]
    assert "x is not a number" in second["errors"]["3"]
    # Host 0 makes no update in the run in which host 1 fails.
    assert list(first["errors"]) == ["3"]
    assert first["errors"]["3"].startswith("AbortedError")
    assert "a learning task of host 1 has failed" in first["errors"]["3"]
    model = Model(learners, momentum=0.0)
    for run in range(8):
        if run != 3:
            model.train([rows_of(host, run) for host in range(2)])
        close(first["z"][run], model.w)
        close(second["z"][run], model.w)
        assert first["z"][run] == second["z"][run]
    assert first["counts"] == second["counts"] == [7, 14 * learners, 14 * ROWS]


@pytest.mark.parametrize(("learners", "elastic"), [(1, False), (2, True)])
def test_a_task_that_fails_after_its_updates_leaves_all_hosts_equal(learners, elastic):
    """Its iteration counts; the others learn of it in their next run, which has no effect."""
    with Hosts(2, "fails_late", learners, [1, 3], elastic) as running:
        first, second = running.results()
    assert list(second["errors"]) == ["3"]
    assert "late is not a number" in second["errors"]["3"]
    assert list(first["errors"]) == ["4"]
    assert "a learning task of host 1 has failed" in first["errors"]["4"]
    model = Model(learners)
    for run in range(8):
        if run == 4:
            assert first["z"][4] == first["z"][3] == second["z"][3]
            continue
        model.train([rows_of(0, run), rows_of(1, run if run < 4 else run - 1)])
        close(first["z"][run], model.w)
        close(second["z"][run if run < 4 else run - 1], model.w)
    assert first["counts"] == [7, 14 * learners, 14 * ROWS]


@pytest.mark.parametrize(("elements", "elastic"), [([0, 3], False), ([2, 5], True)])
def test_a_host_without_data_takes_over_what_the_others_learn(elements, elastic):
    with Hosts(2, "pipelines", 1, elements, 2, "SSGD", 1, None, elastic) as running:
        results = running.results()
    model = Model(1)
    for epoch in range(2):
        for k in range(max(elements)):
            model.train([rows_of(h, k) if k < n else None for h, n in enumerate(elements)])
        for result in results:
            close(result["z"][epoch], model.w)
    for host, result in enumerate(results):
        assert result["z"] == results[0]["z"]
        assert result["runs"] == [elements[host]] * 2
        iterations = 2 * max(elements)
        assert result["counts"] == [iterations, 2 * sum(elements), 2 * sum(elements) * ROWS]


def test_gradients_of_some_rows_are_refused():
    with Hosts(2, "embeds", "auto") as running:
        for (error,) in running.results():
            assert "S-SGD on several hosts averages dense gradients" in error
            assert "Use tensorbow.SMA()" in error
