"""Elastic hosts that are killed and started again: they rejoin, and all end with the same bits,
against NumPy."""

import contextlib
import json
import os
import random
import signal
import time

import numpy as np
import pytest

from tensorbow import cli
from tests.python.host_programs import RATE, ROWS, rows_of, weights_of
from tests.python.hosts import Hosts
from tests.python.hosts_elastic_gradients_test import same
from tests.python.hosts_gradients_test import Model as Descent

LIMIT_SECONDS = 90


class Averages:
    """SMA (ALGORITHMS.md, 1a) by gradient descent, a learner on each host, in float64."""

    def __init__(self, w=None, z=None):
        self.w = w or {}
        self.z = np.append(weights_of(0), 0.0) if z is None else z

    def train(self, rows, restart):
        """Trains in an iteration on these rows by host; from z, without momentum."""
        w = {host: self.z if restart else self.w[host] for host in rows}
        after = {}
        for host, run in rows.items():
            x, y = rows_of(host, run)
            inputs = np.column_stack([x, np.ones(len(x))])
            gradient = 2 * inputs.T @ (inputs @ w[host] - y) / len(x)
            after[host] = w[host] - RATE * gradient - (w[host] - self.z) / len(rows)
        return Averages(after, np.mean(list(after.values()), 0))


def log_of(running, rank):
    """Returns the log of all processes of a host. A process may have been killed within a line."""
    lines = (running.directory / f"log{rank}").read_text().splitlines()
    found = []
    for line in lines:
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found


def await_iteration(running, rank, wanted, trained=0):
    """Waits until the host has logged an iteration after `trained` lines; returns the lines."""
    path = running.directory / f"log{rank}"
    deadline = time.monotonic() + LIMIT_SECONDS
    position = entries = 0
    while True:
        assert time.monotonic() < deadline, f"host {rank} does not come to iteration {wanted}"
        time.sleep(0.01)
        if not path.exists():
            continue
        with path.open("rb") as log:
            log.seek(position)
            written = log.read()
        complete = written[: written.rfind(b"\n") + 1]
        position += len(complete)
        for line in complete.splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                entry = json.loads(line)
                entries += 1
                if entries > trained and entry.get("counts", [-1])[0] >= wanted:
                    return log_of(running, rank)


def iteration_of(running, rank):
    """Returns the last iteration at the end of the host's log."""
    with open(running.directory / f"log{rank}", "rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - 10_000))
        lines = log.read().splitlines()[1:-1]  # complete lines
    return max(e["counts"][0] for e in map(json.loads, lines) if "counts" in e)


def say_until(running, ahead=200):
    """Makes all hosts end together, after the same iteration."""
    # Quickly: a host that is past that iteration ends at once.
    now = max(iteration_of(running, rank) for rank in range(3))
    partly = running.directory / "partly"
    partly.write_text(str(now + ahead))
    partly.rename(running.directory / "until")


def end(running):
    """Ends the hosts; returns their results."""
    say_until(running)
    return running.results()


def kill_and_start_again(running, victim, arguments):
    """Kills a host, waits until it has rejoined, and lets it train for a while."""
    before = len(log_of(running, victim))
    running.signal(victim, signal.SIGKILL)
    running.start_again(victim, "comes_and_goes", *arguments)
    await_all(running, {victim: before})


def await_all(running, before):
    """Waits until hosts, `before` with their lines, have rejoined, and all train."""
    for rank, lines in before.items():
        await_iteration(running, rank, 1, lines)
    now = max(e["counts"][0] for rank in range(3) for e in log_of(running, rank) if "counts" in e)
    for rank in range(3):
        await_iteration(running, rank, now + 10)


def participants(logs, iterations):
    """Returns by iteration, from 1, the rows that each host has trained on: from its log or, if it
    was killed before it logged them, from its start of the iteration and the others' counts."""
    trained = [{} for _ in range(iterations + 1)]
    tasks = [0] * (iterations + 1)
    begun = {}
    for rank, log in logs.items():
        for k, entry in enumerate(log):
            if "counts" in entry:
                i, tasks_now, _ = entry["counts"]
                trained[i][rank] = entry["rows"]
                assert tasks[i] in (0, tasks_now), "the same counts on all hosts"
                tasks[i] = tasks_now
            elif k + 1 == len(log) or "begins" in log[k + 1]:
                begun.setdefault(entry["begins"] + 1, []).append((rank, entry["begins"], k))
    return trained, tasks, begun


def completed(logs, learners, iterations):
    """Adds the iterations of killed processes."""
    trained, tasks, begun = participants(logs, iterations)
    for i in range(1, iterations + 1):
        missing = (tasks[i] - tasks[i - 1]) // learners - len(trained[i])
        assert missing in (0, 1), f"iteration {i}"
        if missing:
            # It was killed in this iteration, in its first one without knowing the number.
            late = [(r, rows) for r, rows, _ in begun.get(i, []) if r not in trained[i]]
            assert late, f"iteration {i}"
            rank, rows = late[0]
            trained[i][rank] = rows
    return trained, tasks


def values_by_iteration(logs, compared=("w", "b")):
    values = {}
    for log in logs.values():
        for entry in log:
            if "counts" not in entry:
                continue
            known = values.setdefault(entry["counts"][0], entry["values"])
            assert [known[w] for w in compared] == [entry["values"][w] for w in compared], (
                f"the same bits on all hosts after iteration {entry['counts'][0]}"
            )
    return values


def check_descent(logs, learners, iterations):
    trained, tasks = completed(logs, learners, iterations)
    values = values_by_iteration(logs, ("w", "b", "w/Momentum", "b/Momentum"))
    model = Descent(learners)
    for i in range(1, iterations + 1):
        model.train([rows_of(rank, rows) for rank, rows in sorted(trained[i].items())])
        assert same(values[i], model), f"iteration {i}"
    return trained, tasks


def check_averages(logs, iterations):
    """Checks the averages; returns how often replicas have started from z."""
    trained, tasks = completed(logs, 1, iterations)
    values = values_by_iteration(logs)
    model, restarts = Averages(), 0
    for i in range(1, iterations + 1):
        seen = np.append(values[i]["w"], values[i]["b"])
        changed = trained[i].keys() != model.w.keys()
        for restart in [True] if changed else [False, True]:
            after = model.train(trained[i], restart)
            if np.allclose(seen, after.z, 1e-9, 1e-12):
                break
        else:
            raise AssertionError(f"iteration {i} of {trained[i]}")
        restarts += restart
        model = after
    return restarts, tasks


def test_hosts_that_are_killed_come_back_with_weights_and_slots():
    """Kills any host, including the chief, three times, at any moment."""
    learners = 2
    results, logs = come_back((learners, "SSGD"), times=3)
    iterations = results[0]["counts"][0]
    _, tasks = check_descent(logs, learners, iterations)
    for result in results:
        assert result["last"] == results[0]["last"]
        assert result["counts"] == [iterations, tasks[-1], tasks[-1] * ROWS // learners]
    warned = [text for result in results for text in result["warned"]]
    assert any("A lost host has rejoined the cluster: " in text for text in warned)


def come_back(arguments, times):
    with Hosts(3, "comes_and_goes", *arguments) as running:
        for rank in range(3):
            await_iteration(running, rank, 20)
        for victim in random.sample(range(3), times):
            time.sleep(random.random() * 0.05)  # the moment is random
            kill_and_start_again(running, victim, arguments)
        results = end(running)
        return results, {rank: log_of(running, rank) for rank in range(3)}


def test_hosts_that_are_killed_come_back_with_the_central_model():
    results, logs = come_back((1, "SMA"), times=2)
    iterations = results[0]["counts"][0]
    restarts, tasks = check_averages(logs, iterations)
    assert 4 < restarts < 14, "the first iteration, and at each loss and return"
    for result in results:
        assert result["counts"] == [iterations, tasks[-1], tasks[-1] * ROWS]


def test_who_comes_back_keeps_to_the_schedule_and_the_counts():
    options = {"centre": "lagging", "momentum": 0.9, "sync_period": 3}
    results, logs = come_back((2, "SMA", options), times=1)
    values_by_iteration(logs)
    for result in results:
        assert [result["last"][w] for w in "wb"] == [results[0]["last"][w] for w in "wb"]
        assert result["counts"] == results[0]["counts"]


def test_a_host_comes_back_while_another_is_missing():
    """Two are lost, one after the other, the chief among them; both rejoin, one by one."""
    arguments = 1, "SSGD"
    with Hosts(3, "comes_and_goes", *arguments) as running:
        for rank in range(3):
            await_iteration(running, rank, 20)
        lines = {}
        for victim in (0, 2):
            running.signal(victim, signal.SIGKILL)
            running.processes[victim].join()
            lines[victim] = len(log_of(running, victim))
            last = log_of(running, 1)[-2:]
            now = max(e["counts"][0] for e in last if "counts" in e)
            await_iteration(running, 1, now + 10)
        for victim in (2, 0):
            running.start_again(victim, "comes_and_goes", *arguments)
            await_iteration(running, victim, 1, lines[victim])
        await_all(running, {})
        results = end(running)
        logs = {rank: log_of(running, rank) for rank in range(3)}
    iterations = results[0]["counts"][0]
    _, tasks = check_descent(logs, 1, iterations)
    for result in results:
        assert result["counts"] == [iterations, tasks[-1], tasks[-1] * ROWS]


def test_a_member_dies_while_another_host_comes_back():
    arguments = 1, "SMA"
    with Hosts(3, "comes_and_goes", *arguments) as running:
        for rank in range(3):
            await_iteration(running, rank, 20)
        first, second = random.sample(range(3), 2)
        lines = {first: len(log_of(running, first))}
        running.signal(first, signal.SIGKILL)
        running.start_again(first, "comes_and_goes", *arguments)
        # One of three hosts does not continue alone: two continue first without the third.
        for rank in {0, 1, 2} - {first}:
            begun = log_of(running, rank)
            now = max(entry["counts"][0] for entry in begun if "counts" in entry)
            await_iteration(running, rank, now + 3, len(begun))
        deadline = time.monotonic() + LIMIT_SECONDS
        while len(log_of(running, first)) == lines[first]:  # it starts its first run
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(random.random() * 1.5)  # the moment is random: it rejoins in this time
        lines[second] = len(log_of(running, second))
        running.signal(second, signal.SIGKILL)
        running.start_again(second, "comes_and_goes", *arguments)
        await_all(running, {first: lines[first] + 1, second: lines[second]})
        results = end(running)
        logs = {rank: log_of(running, rank) for rank in range(3)}
    values_by_iteration(logs)
    for result in results:
        assert result["counts"] == results[0]["counts"]
        assert [result["last"][w] for w in "wb"] == [results[0]["last"][w] for w in "wb"]


def test_who_comes_back_with_other_options_is_told_so_and_the_others_go_on():
    arguments = 1, "SSGD"
    with Hosts(3, "comes_and_goes", *arguments) as running:
        for rank in range(3):
            await_iteration(running, rank, 20)
        running.signal(1, signal.SIGKILL)
        running.start_again(1, "comes_and_goes", 1, "SMA")
        with pytest.raises(AssertionError, match="train other variables, or with other options"):
            running.result(1)
        before = len(log_of(running, 1))
        running.start_again(1, "comes_and_goes", *arguments)
        await_all(running, {1: before})
        results = end(running)
        warned = results[0]["warned"]
    assert sum("host of the cluster is lost" in text for text in warned) == 1
    assert results[0]["last"] == results[1]["last"] == results[2]["last"]


def test_who_comes_back_when_all_others_have_ended_has_what_they_have():
    """In the last iteration they see that it waits."""
    arguments = 1, "SSGD", None, True
    with Hosts(3, "comes_and_goes", *arguments) as running:
        for rank in range(3):
            await_iteration(running, rank, 20)
        running.signal(2, signal.SIGKILL)
        running.processes[2].join()
        before = len(log_of(running, 2))
        say_until(running, 500)
        running.start_again(2, "comes_and_goes", *arguments)
        deadline = time.monotonic() + LIMIT_SECONDS
        while len(log_of(running, 2)) == before:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(3)  # until the others' watchdogs, which look every second, have seen it
        (running.directory / "go").touch()
        results = running.results()
    for result in results:
        assert [result["last"][w] for w in "wb"] == [results[0]["last"][w] for w in "wb"]
        assert result["counts"] == results[0]["counts"]


ENDS_BACK = """
import json, os, pathlib, signal, sys
import numpy as np
import tensorflow.compat.v1 as tf
import tensorbow

tf.disable_eager_execution()
cluster = tensorbow.Cluster.from_tf_config(elastic=True, start_limit_seconds=60)
folder, rank = pathlib.Path(sys.argv[1]), cluster.rank
x = tf.placeholder(tf.float32, [None, 2])
w = tf.get_variable("w", [2, 1])
loss = tf.reduce_mean(tf.square(x @ w - 1))
train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
options = tensorbow.Options(cluster=cluster, learners_per_device=1, pin_threads=False)
until, died = folder / "until", folder / "died"
with tensorbow.TensorBowSession(options=options) as session:
    session.run(tf.global_variables_initializer())
    comes_back, begun = died.exists() and rank == 1, 0
    while not until.exists() or session.iterations < int(until.read_text()):
        random = np.random.default_rng([rank, session.iterations])
        session.run(train, {x: random.standard_normal((8, 2))})
        begun += 1
        if rank == 1 and not died.exists() and begun == 30:
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if comes_back and begun == 10:
            (folder / "partly").write_text(str(session.iterations + 100))
            (folder / "partly").rename(until)
    end = {"w": session.run(w).tolist(), "iterations": session.iterations}
    (folder / f"result{rank}").write_text(json.dumps(end))
"""


def test_an_elastic_launch_takes_back_who_is_killed(tmp_path, capfd, warm_python):
    program = tmp_path / "program.py"
    program.write_text(ENDS_BACK)
    arguments = ["launch", "--hosts", "3", "--elastic", "--max-restarts", "2"]
    assert cli.main([*arguments, str(program), str(tmp_path)]) == 0
    assert "host 1: SIGKILL; starting it again (1 more)" in capfd.readouterr().err
    ends = {(tmp_path / f"result{rank}").read_text() for rank in range(3)}
    assert len(ends) == 1, "the same bits and iterations on all hosts"
    assert json.loads(ends.pop())["iterations"] > 100
