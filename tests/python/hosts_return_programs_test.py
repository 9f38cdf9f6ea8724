"""Elastic hosts of tf.data pipelines and of Keras that are killed and started again."""

import random
import signal

import numpy as np
import pytest

from tests.python.host_programs import RATE, rows_of
from tests.python.hosts import Hosts
from tests.python.hosts_return_test import await_all, await_iteration, log_of, say_until


@pytest.mark.parametrize(
    ("program", "synchroniser"), [("session_trains", "SMA"), ("keras_fits", "SSGD")]
)
def test_hosts_that_are_killed_come_back(program, synchroniser):
    name = f"return_programs.{program}"
    with Hosts(3, name, synchroniser) as running:
        for rank in range(3):
            await_iteration(running, rank, 20)
        for victim in random.sample(range(3), 2):
            before = len(log_of(running, victim))
            running.signal(victim, signal.SIGKILL)
            running.start_again(victim, name, synchroniser)
            await_all(running, {victim: before})
        say_until(running)
        results = running.results()
        logs = [log_of(running, rank) for rank in range(3)]
    for result in results:
        assert result == results[0], "the same bits, and the same counts"
    checked = check(logs, descends=synchroniser == "SSGD")
    assert checked > 100
    assert loss(results[0]["last"]) < 0.5 * loss(logs[0][0]["values"])


def check(logs, descends):
    """Checks that all hosts have the same bits after an iteration; if it `descends`, those of the
    gradients' mean, from the iteration before. Returns the number of iterations with all hosts."""
    by_iteration = {}
    for rank, log in enumerate(logs):
        for entry in log:
            by_iteration.setdefault(entry["counts"][0], {})[rank] = entry
    checked = 0
    for i, of in by_iteration.items():
        entries = list(of.values())
        assert all(entry["values"] == entries[0]["values"] for entry in entries), i
        if len(of) < 3 or i - 1 not in by_iteration:
            continue
        checked += 1
        if descends:
            before = next(iter(by_iteration[i - 1].values()))["values"]
            gradients = [gradient(rank, of[rank]["rows"], np.array(before)) for rank in range(3)]
            after = before - RATE * np.mean(gradients, 0)
            # Keras keeps the learning rate and the rows in float32.
            np.testing.assert_allclose(entries[0]["values"], after, 1e-6, 1e-7, err_msg=f"{i}")
    return checked


def gradient(rank, batch, weights):
    x, y = rows_of(rank, batch)
    inputs = np.column_stack([x, np.ones(len(x))])
    return 2 * inputs.T @ (inputs @ weights - y) / len(x)


def loss(weights):
    """Returns the loss of all hosts' first rows."""
    x, y = map(np.concatenate, zip(*(rows_of(rank, 0) for rank in range(3))))
    return np.mean((x @ weights[:-1] + weights[-1] - y) ** 2)
