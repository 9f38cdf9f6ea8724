"""Adaptive SGD over several hosts, against NumPy's model of the whole system (arXiv 2110.07029).

Learners take turns (scheduling="round_robin") where weights are compared; a host's share of a
mega-batch is then in proportion to its learners.
"""

import numpy as np
import pytest

import tensorbow
from tests.python.adaptive_host_programs import COLUMNS, MOMENTUM, RATE, rows_of
from tests.python.hosts import Hosts

ADAPTIVE = {"mega_batch": 60, "b_min": 2, "b_max": 8, "beta": 3.0, "momentum": 0.5}
OF = "adaptive_host_programs."


class Host:
    """The state of a host's learners."""

    def __init__(self, system, runs):
        self.system, self.runs = system, runs
        self.run = self.row = self.turn = 0
        self.z = []  # the value read after every run
        self.replicas = []

    @property
    def ended(self):
        return self.run == len(self.runs)

    def end_runs(self):
        """Ends runs whose rows have been trained on and merged."""
        while not self.ended and self.row == len(self.runs[self.run][1]):
            self.z.append(self.system.z.copy())
            self.replicas.append([self.system.w[j].copy() for j in self.learners])
            self.run, self.row = self.run + 1, 0

    def train_on_share(self):
        """Trains; returns whether the share is complete, otherwise the data has ended."""
        left = self.share
        while not self.ended:
            x, y = self.runs[self.run]
            end = min(len(x), self.row + left)
            while self.row < end:
                j = self.learners[self.turn]
                to = min(end, self.row + self.system.sizes[j])
                self.system.update(j, x[self.row : to], y[self.row : to])
                left -= to - self.row
                self.row, self.turn = to, (self.turn + 1) % len(self.learners)
            if left == 0:
                return True
            self.end_runs()
        return False


class System:
    """All learners of all hosts, in float64. `runs`: by host, of rows and targets."""

    def __init__(self, learners, runs, options, scales=True):
        self.options = tensorbow.AdaptiveSGD(**options)
        self.hosts = [Host(self, r) for r in runs]
        total = sum(learners)
        self.z = np.random.default_rng(0).standard_normal(COLUMNS)  # the chief's initial value
        self.z_before = self.z.copy()
        self.w = [self.z.copy() for _ in range(total)]
        self.slots = [np.zeros(COLUMNS) for _ in range(total)]
        self.sizes = [self.options.b_max] * total
        self.updates, self.rows = [0] * total, [0] * total
        self.scales = scales
        self.records = []
        for h, host in enumerate(self.hosts):
            first = sum(learners[:h])
            host.learners = list(range(first, first + learners[h]))
        self.share_out(self.hosts)

    def share_out(self, hosts):
        learners = sum(len(host.learners) for host in hosts)
        for host in hosts:
            host.share = self.options.mega_batch * len(host.learners) // learners
        assert sum(host.share for host in hosts) == self.options.mega_batch

    def update(self, j, x, y):
        gradient = 2 * x.T @ (x @ self.w[j] - y) / len(x)
        self.slots[j] = MOMENTUM * self.slots[j] + gradient
        self.w[j] = self.w[j] - RATE * self.sizes[j] / self.options.b_max * self.slots[j]
        self.updates[j] += 1
        self.rows[j] += len(x)

    def train(self):
        """Trains until all hosts have finished their runs."""
        while True:
            complete = [host.train_on_share() for host in self.hosts]
            if not any(complete):
                return
            self.merge([host for host, done in zip(self.hosts, complete) if done])

    def merge(self, with_data):
        taking_part = [h for h in self.hosts if any(self.updates[j] for j in h.learners)]
        counted = [j for h in taking_part for j in h.learners]
        updates = [self.updates[j] for j in counted]
        equal = len(set(updates)) == 1
        p = np.zeros(len(self.w))
        p[counted] = [self.sizes[j] for j in counted] if equal else updates
        p /= p.sum()
        norms = [np.linalg.norm(w) / COLUMNS for w in self.w]
        if max(norms) < self.options.threshold and not equal and min(updates) > 0:
            p[counted[np.argmax(updates)]] *= 1 + self.options.perturbation
            p[counted[np.argmin(updates)]] *= 1 - self.options.perturbation
        merged = p @ np.array(self.w)
        step = self.options.momentum * (self.z - self.z_before)
        self.z, self.z_before = merged + step, self.z
        self.w = [self.z.copy() for _ in self.w]
        self.records.append([list(self.sizes), list(self.updates), list(self.rows), list(p)])
        for j in counted if self.scales else []:
            size = self.sizes[j] + self.options.beta * (self.updates[j] - np.mean(updates))
            if self.options.b_min <= size <= self.options.b_max:
                self.sizes[j] = int(np.floor(size + 0.5))
        self.share_out(with_data or self.hosts)
        self.updates, self.rows = [0] * len(self.w), [0] * len(self.w)
        for host in self.hosts:
            host.end_runs()


def fed(rank, runs):
    return [rows_of(rank, run, rows) for run, rows in enumerate(runs)]


def check_records(records, model):
    assert len(records) == len(model.records)
    for (sizes, rates, updates, rows, weights), expected in zip(records, model.records):
        assert [sizes, updates, rows] == expected[:3]
        np.testing.assert_allclose(weights, expected[3], rtol=1e-12)
        np.testing.assert_allclose(rates, np.array(sizes) / model.options.b_max)


@pytest.mark.parametrize(
    ("learners", "changes", "sparse"),
    [
        ([2, 1], {}, False),
        ([1, 2], {"threshold": 1e6}, True),
    ],
    ids=str,
)
def test_every_replica_on_every_host_is_the_formulas(learners, changes, sparse, tmp_path):
    # Runs that end in the middle of a share, and one that has several.
    runs = [[25, 15, 40, 7, 100, 33], [60, 20, 80, 41, 3]]
    options = ADAPTIVE | changes
    path = str(tmp_path / "state")
    with Hosts(2, OF + "merges", learners, runs, options, path, sparse) as running:
        results = running.results()
    model = System(learners, [fed(rank, runs[rank]) for rank in range(2)], options)
    model.train()
    assert len(model.records) >= 6
    for result, host in zip(results, model.hosts):
        np.testing.assert_allclose(result["z"], host.z, rtol=1e-9)
        for read, expected in zip(result["replicas"], host.replicas):
            np.testing.assert_allclose(read, expected, rtol=1e-9)
        check_records(result["records"], model)
    first, second = results
    assert first["last"] == second["last"] and first["merged"] == second["merged"]
    assert first["records"] == second["records"]
    np.testing.assert_allclose(first["last"], model.z, rtol=1e-9)
    assert len({tuple(record[0]) for record in first["records"]}) > 1, "sizes have changed"
    tasks = sum(sum(updates) for _, updates, _, _ in model.records) + sum(model.updates)
    assert first["counts"] == second["counts"] == [tasks, sum(map(sum, runs))]
    # merge() merges the rest, if there is any.
    assert len(first["left"]) == len(second["left"]) == bool(any(model.updates))
    if any(model.updates):
        model.merge([])
    np.testing.assert_allclose(first["merged"], model.z, rtol=1e-9)


def test_a_host_without_data_stays_until_all_have_ended_and_what_is_left_is_merged():
    learners = [2, 1]
    elements = [[6] * 20, [5] * 8]
    options = {"mega_batch": 30, "b_max": 8, "momentum": 0.5}
    with Hosts(2, OF + "pipelines", learners, elements, options) as running:
        results = running.results()
    first, second = results
    for result in results:
        assert result["error"] == "OutOfRangeError"
        assert result["counts"] == [28, 160], "of all hosts"
        assert result["last"] == result["replica"] == first["last"]
        rows = [sum(record[3]) for record in result["records"]]
        assert sum(rows) == 160, "each row has been merged"
        assert {tuple(record[0]) for record in result["records"]} == {(8,) * sum(learners)}
    assert [record[2:] for record in first["records"]] == [r[2:] for r in second["records"]]
    assert all(sum(record[2][-learners[1] :]) == 0 for record in first["records"][-1:])


def test_pipelines_of_one_learner_each_are_the_formulas():
    elements = [[6] * 20, [5] * 8]
    options = {"mega_batch": 60, "b_max": 8, "momentum": 0.5}
    with Hosts(2, OF + "pipelines", [1, 1], elements, options) as running:
        results = running.results()
    runs = []
    for rank in range(2):
        x, y = rows_of(rank, 0, sum(elements[rank]))
        ends = np.cumsum([0, *elements[rank]])
        runs.append([(x[b:e], y[b:e]) for b, e in zip(ends[:-1], ends[1:])])
    model = System([1, 1], runs, options, scales=False)
    model.train()
    if any(model.updates):
        model.merge([])
    for result, host in zip(results, model.hosts):
        np.testing.assert_allclose(result["z"], host.z[: len(result["z"])], rtol=1e-9)
        np.testing.assert_allclose(result["last"], model.z, rtol=1e-9)
        check_records(result["records"], model)


def test_a_task_that_fails_takes_all_hosts_back_to_the_last_merge():
    runs = [40, 20, 30, 40, 50, 60]
    with Hosts(2, OF + "fails", runs, 2, ADAPTIVE) as running:
        results = running.results()
    (failed,) = results[1]["errors"]
    (told,) = results[0]["errors"]
    assert failed[0] == 2 and failed[1].startswith("InvalidArgumentError")
    assert "bad is not a number" in failed[1]
    assert told[1].startswith("AbortedError")
    assert "a learning task of host 1 has failed" in told[1]
    assert "AdaptiveSGD discards all that hosts have trained since the last merge" in told[1]
    merged = results[0]["z"][1]
    for _, _, read, replicas in (failed, told):
        assert read == merged and replicas == [merged, merged]
    assert merged != results[0]["z"][-1]
    assert results[0]["z"][-1] == results[1]["z"][-1], "they go on together"
    assert results[0]["records"] == results[1]["records"]


def test_what_is_saved_between_merges_goes_on_bit_for_bit(tmp_path):
    learners = [2, 1]
    runs = [[50, 33, 41, 70], [38, 90, 5, 61]]
    path = str(tmp_path / "state")
    arguments = (learners, runs, ADAPTIVE, path, [2, 2])
    with Hosts(2, OF + "goes_on", *arguments, False) as running:
        wanted = running.results()
    with Hosts(2, OF + "goes_on", *arguments, True) as running:
        assert running.results() == wanted
    with Hosts(2, OF + "goes_on", learners[::-1], *arguments[1:], True) as running:
        for rank, result in enumerate(running.results()):
            assert "state is of hosts with" in result["error"] or (
                "Host" in result["error"] and "cannot load its part" in result["error"]
            ), rank


@pytest.mark.parametrize("changes", [{"mega_batch": 80}, {"b_max": 16}, {"momentum": 0.0}], ids=str)
def test_hosts_with_other_options_say_so(changes):
    with Hosts(2, OF + "differ", [2, 1], [ADAPTIVE, ADAPTIVE | changes]) as running:
        for result in running.results():
            assert "different variables, optimisers, options" in result[0]


def test_a_host_that_is_there_first_takes_part_in_the_others_merges(tmp_path):
    with Hosts(2, OF + "writes", ADAPTIVE, str(tmp_path / "state")) as running:
        first, second = running.results()
    assert first["merges"] == 1 and second["merges"] == 4
    assert first["written"][0] == second["written"][0] != 8.0, "the chief's"
    assert first["last"] == second["last"] != first["written"]
    assert first["last"][1] != 0.0, "the bias has been trained"
