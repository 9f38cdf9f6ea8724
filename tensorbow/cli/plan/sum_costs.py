"""Costs of sums over hosts, measured between processes of this machine.

    python -m tensorbow.cli.plan.sum_costs RANK ADDRESS ADDRESS

is one of two hosts. It prints, as JSON, seconds and CPU seconds of a sum by its size in bytes,
and the CPU seconds that a small step loses to a sum beside it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tensorbow.cli.plan.cost_model import Exchange, SumCosts

SIZES = (1 << 10, 1 << 16, 1 << 19, 1 << 22)  # bytes
SECONDS = 0.3  # for each
TURNS = 3  # the fastest counts: other programs may use the machine
STEPS = 200  # with a sum beside them
_STEP, _STEP_ROWS = "logistic", 32
_PAIR = Exchange(2)


def fitted(measured: Mapping[int, tuple[float, float]]) -> SumCosts:
    """Returns the costs that explain the seconds and CPU seconds of sums over two hosts, by
    size."""
    sent = np.array([_PAIR.sent_bytes(size) for size in measured])
    messages = np.array([_PAIR.messages(size) for size in measured])
    lines = []
    for taken in zip(*measured.values()):
        # Errors are relative: small sums count as much as large ones.
        weights = 1 / np.array(taken)
        rows = np.column_stack([messages, sent]) * weights[:, None]
        lines.append(_not_negative(rows, np.ones(len(sent))))
    (step, byte), (step_work, byte_work) = lines
    return SumCosts(step, byte, step_work, byte_work)


def _not_negative(rows: np.ndarray, wanted: np.ndarray) -> tuple[float, float]:
    """Returns the least-squares factors, both 0 or more."""
    factors = np.linalg.lstsq(rows, wanted, rcond=None)[0]
    for k in range(2):
        if factors[k] < 0:
            other = rows[:, 1 - k]
            factors = np.zeros(2)
            factors[1 - k] = other @ wanted / (other @ other)
            break
    return float(factors[0]), float(factors[1])


def measure(shares: Iterable[Iterable[int]]) -> SumCosts:
    """Measures sums between two processes with these cores each."""
    from tensorbow.cli.launch import free_addresses

    addresses = free_addresses(2)
    processes = []
    for rank, cores in enumerate(shares):
        command = [sys.executable, "-m", "tensorbow.cli.plan.sum_costs", str(rank), *addresses]
        processes.append(_start(command, cores))
    first, _ = (_answer(process) for process in processes)
    costs = fitted({int(size): (taken[0], taken[1]) for size, taken in first["sums"].items()})
    return dataclasses.replace(costs, interruption=first["interruption"])


def _start(command: list[str], cores: Iterable[int]) -> subprocess.Popen[str]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(cores))  # the process inherits them
    try:
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        )
    finally:
        os.sched_setaffinity(0, before)


def _answer(process: subprocess.Popen[str]) -> Any:
    output, errors = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"Sums of two processes cannot be measured here: {errors[-2000:]}")
    return json.loads(output.splitlines()[-1])


def _sums(rank: int, cluster: Any) -> dict[int, tuple[float, float]]:
    found = {}
    for size in SIZES:
        values = np.ones(size // 4, np.float32)
        made = cluster.new_sum(values.dtype, values.size)
        # Both hosts make the same sums: the first says how many.
        counts = cluster.new_sum(np.dtype("int64"), 1)

        def repeat(count: int, made: Any = made, values: np.ndarray = values) -> float:
            begin = time.perf_counter()
            for _ in range(count):
                made.start(values)
                made.wait()
            return time.perf_counter() - begin

        wanted = SECONDS / TURNS / (repeat(10) / 10)
        counts.start(np.array([max(3, int(wanted)) if rank == 0 else 0]))
        count = int(counts.wait()[0])
        turns = []
        for _ in range(TURNS):
            work = time.process_time()
            seconds = repeat(count)
            turns.append((seconds / count, (time.process_time() - work) / count))
        found[size] = min(turns)
    return found


def _interruption(cluster: Any) -> float:
    """Returns CPU seconds of a sum beside a small step, less those of the two alone."""
    import tensorflow as tf

    from tensorbow.cli import tune

    program, feeds = tune.model_with_rows(_STEP, _STEP_ROWS)
    values = np.ones(SIZES[0] // 4, np.float32)
    made = cluster.new_sum(values.dtype, values.size)
    with tf.compat.v1.Session(graph=program.graph) as session:
        session.run(program.init)

        def step() -> None:
            session.run(program.train_op, feeds)

        def both() -> None:
            made.start(values)
            step()
            made.wait()

        def summed() -> None:
            made.start(values)
            made.wait()

        both()
        turns = [_work(both) - _work(step) - _work(summed) for _ in range(TURNS)]
    return max(0.0, float(np.median(turns)))


def _work(what: Callable[[], None]) -> float:
    """Returns the mean CPU seconds of a call."""
    begin = time.process_time()
    for _ in range(STEPS):
        what()
    return (time.process_time() - begin) / STEPS


def _main() -> None:
    from tensorbow import _native

    rank = int(sys.argv[1])
    cluster = _native.join_cluster(sys.argv[2:], rank, 60, 10)
    found = {"sums": _sums(rank, cluster), "interruption": _interruption(cluster)}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    _main()
