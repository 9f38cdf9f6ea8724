"""Elastic hosts: the remaining ones train on when one dies or hangs, against NumPy."""

import random
import re
import signal

import numpy as np
import pytest

from tests.python.host_programs import RATE, ROWS, rows_of, weights_of
from tests.python.hosts import Hosts

RUNS = 50
LAGGING = {"centre": "lagging", "momentum": 0.9}


class Model:
    """SMA (ALGORITHMS.md, 1a and 1b) by gradient descent over the learners of the remaining hosts,
    in float64. `w` is by host [learners, weights]."""

    def __init__(self, hosts, learners, options):
        self.z = np.append(weights_of(0), 0.0)
        self.lags = options.get("centre") == "lagging"
        self.mu = options.get("momentum", 0.0)
        self.learners = learners
        self.go_on(range(hosts))

    def go_on(self, hosts):
        """Continues with these hosts, from z, without momentum."""
        self.w = {host: np.tile(self.z, (self.learners, 1)) for host in hosts}
        self.z_prev = self.z

    def train(self, run):
        alpha = 1 / (len(self.w) * self.learners)
        corrections = np.zeros_like(self.z)
        for host, w in self.w.items():
            x, y = rows_of(host, run)
            for j, rows in enumerate(np.array_split(np.arange(ROWS), self.learners)):
                inputs = np.column_stack([x[rows], np.ones(len(rows))])
                gradient = 2 * inputs.T @ (inputs @ w[j] - y[rows]) / len(rows)
                correction = alpha * (w[j] - self.z)
                corrections += correction
                w[j] = w[j] - RATE * gradient - correction
        if self.lags:
            z = self.z + corrections + self.mu * (self.z - self.z_prev)
            self.z_prev, self.z = self.z, z
        else:
            self.z = np.mean(np.concatenate(list(self.w.values())), 0)


def check(results, learners, options, hosts=3, rtol=1e-9, atol=1e-12):
    """Checks that z of the remaining hosts is the model's: of all hosts until some run, of the
    remaining ones from there on. `results` are by rank. Returns the run."""
    left = sorted(results)
    first = results[left[0]]
    for result in results.values():
        assert result["z"] == first["z"], "the same bits on all hosts"
    z = [np.append(*read) for read in first["z"]]
    model = Model(hosts, learners, options)
    lost = None
    for run, seen in enumerate(z):
        before = model.z.copy()
        model.train(run)
        if lost is None and not np.allclose(seen, model.z, rtol=rtol, atol=atol):
            lost = run
            model.z = before
            model.go_on(left)
            model.train(run)
        np.testing.assert_allclose(seen, model.z, rtol=rtol, atol=atol, err_msg=f"run {run}")
    assert lost is not None, "nobody has been lost"
    tasks = learners * (hosts * lost + len(left) * (len(z) - lost))
    for result in results.values():
        assert result["counts"] == [len(z), tasks, tasks * ROWS // learners]
        assert result["warned"] and "does not answer" in result["warned"][0]
    return lost


def survivors(running, dead):
    left = set(range(len(running.processes))) - dead
    return {rank: running.result(rank) for rank in sorted(left)}


@pytest.mark.parametrize(
    ("victim", "learners", "options", "elements"), [(0, 2, LAGGING, True), (2, 1, {}, False)]
)
def test_those_that_are_left_go_on_from_the_last_iteration_that_counts(
    victim, learners, options, elements
):
    """Kills a host at any time: the chief, and the last. Elements of pipelines are trained once."""
    moment = [20 + random.randrange(5), random.random() * 0.03]
    arguments = learners, RUNS, {str(victim): moment}, "SMA", options, elements
    with Hosts(3, "goes_on", *arguments) as running:
        results = survivors(running, {victim})
        running.processes[victim].join(10)
        assert running.processes[victim].exitcode == -signal.SIGKILL
    lost = check(results, learners, options)
    assert lost >= moment[0]
    for result in results.values():
        assert result["seconds"] < 15


def test_who_hangs_is_left_behind():
    with Hosts(3, "goes_on", 1, 200, {}) as running:
        for rank in range(3):
            running.await_mark(rank)
        running.signal(0, signal.SIGSTOP)
        results = survivors(running, {0})
    check(results, 1, {})


def test_who_has_been_left_behind_comes_back_when_it_is_started_again():
    """A host that hung and continues gets an error."""
    with Hosts(3, "goes_on_until_told") as running:
        for rank in range(3):
            running.await_mark(rank)
        running.signal(2, signal.SIGSTOP)
        for rank in (0, 1):
            running.await_file(f"lost{rank}")
        running.signal(2, signal.SIGCONT)
        told = running.result(2)["error"]
        (running.directory / "2.mark").unlink()
        running.start_again(2, "goes_on_until_told")
        running.await_mark(2)
        (running.directory / "stop").touch()
        first, second, back = running.results()
    assert back["error"] == ""
    assert all(z in first["z"] + second["z"] for z in back["z"][:-1])
    assert told.startswith("UnavailableError")
    # It finds out by itself, or from the others' message first.
    why = "(it has been stopped for|Deadline Exceeded)"
    host = re.escape(f"host 2 ({running.addresses[2]}) does not answer: ")
    assert re.search(host + why, told)
    assert "The others go on without this host: start it again, and it rejoins" in told
    assert first["error"] == second["error"] == ""
    common = min(len(first["z"]), len(second["z"]))
    assert first["z"][:common] == second["z"][:common]


def test_those_that_are_left_save_a_state_of_theirs(tmp_path):
    path = str(tmp_path / "state")
    with Hosts(3, "saves_on", path, {"1": [17, 0.0]}) as running:
        first, last = survivors(running, {1}).values()
    assert first["error"] == last["error"] == ""
    assert first["w"] == last["w"]
    with Hosts(2, "loads", path) as running:
        assert running.results() == [first["w"]] * 2


def test_who_is_lost_while_all_save_ends_training_or_not_but_for_all(tmp_path):
    victim, path = random.choice([0, 2]), str(tmp_path / "state")
    deaths = {str(victim): [19, random.random() * 0.02]}
    with Hosts(3, "saves_on", path, deaths) as running:
        first, last = survivors(running, {victim}).values()
    assert first["w"] == last["w"]
    for result in (first, last):
        if result["error"]:
            assert result["error"].startswith("UnavailableError")
            assert "does not answer" in result["error"]
            assert "Start all hosts again" in result["error"]
        else:
            assert result["run"] == 29
