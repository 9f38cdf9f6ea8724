"""The programs of elastic hosts under S-SGD, and of hosts that rejoin; see hosts.py."""

from __future__ import annotations

import json
import pathlib
import time
import warnings
from typing import Any

import tensorflow as tf

import tensorbow
from tests.python import host_programs
from tests.python.host_programs import MOMENTUM, Regression


def lost_hosts(warned: list[warnings.WarningMessage]) -> list[str]:
    """Returns the warnings about lost hosts."""
    return [str(w.message) for w in warned if "host of the cluster is lost" in str(w.message)]


def variables_of(program: Regression) -> list[Any]:
    """Returns weights, slots and the global step."""
    with program.graph.as_default():
        return sorted(tf.compat.v1.global_variables(), key=lambda v: v.name)


def values_of(session: Any, program: Regression) -> dict[str, Any]:
    """Returns the values of all variables, by name."""
    variables = variables_of(program)
    return {v.op.name: value.tolist() for v, value in zip(variables, session.run(variables))}


def descends_on(
    rank: int,
    addresses: list[str],
    learners: int,
    runs: int,
    deaths: dict[str, list[float]],
    elements: list[int] | None = None,
    watched: int | None = None,
) -> dict[str, Any]:
    """Trains under S-SGD, with momentum, on elastic hosts, some of which die. `deaths`: by rank,
    the run and the seconds after its start. Returns all variables after every run, the fetched
    losses, and the learners' final values.

    With `elements` it trains on so many of a tf.data pipeline, by host, until they end. The lowest
    rank but `watched` notices the death of that one at once.
    """
    program = Regression(rank, elements=None if elements is None else elements[rank])
    variables = variables_of(program)
    run_of_death, delay = deaths.get(str(rank), [-1, 0.0])
    values, losses, seconds, error = [], [], [0.0], ""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with program.session(
            addresses, rank, learners, elastic=True, synchroniser="auto"
        ) as session:
            session.run(program.init)
            if elements is not None:
                session.run(program.iterator.initializer)
            for run in range(runs):
                if run == 10:
                    host_programs.mark()
                if run == run_of_death:
                    host_programs._die_soon(delay)
                if watched is not None and rank == (watched == 0) and run == 15:
                    host_programs._fail_when_it_has_died(
                        session._hosts, watched, addresses[watched]
                    )
                begin = time.monotonic()
                feeds = program.feeds(rank, run) if elements is None else {}
                try:
                    _, loss = session.run([program.train, program.loss], feeds)
                except tf.errors.OutOfRangeError:
                    break
                except tf.errors.UnavailableError as failure:
                    error = failure.message
                    break
                seconds.append(time.monotonic() - begin)
                losses.append(float(loss))
                values.append(values_of(session, program))
            last = values_of(session, program)
            counts = session.iterations, session.learning_tasks, session.samples_seen
            equal = all(
                session.learner_value(v, j).tolist() == last[v.op.name]
                for v in variables
                for j in range(learners)
            )
            chosen = type(session.synchroniser).__name__
    return {
        "values": values,
        "last": last,
        "losses": losses,
        "counts": counts,
        "equal": equal,
        "synchroniser": chosen,
        "warned": lost_hosts(warned),
        "seconds": max(seconds),
        "error": error,
    }


def comes_and_goes(
    rank: int,
    addresses: list[str],
    learners: int,
    synchroniser: str,
    options: dict[str, Any] | None = None,
    waits: bool = False,
) -> dict[str, Any]:
    """Trains on elastic hosts until as many iterations count as the file "until" says. It may be
    killed at any time and started again.

    Logs every run before it and after it, with the variables that it has left. If it `waits`, the
    last run does, for a file "go".
    """
    program = Regression(rank, momentum=MOMENTUM if synchroniser == "SSGD" else 0.0)
    until = host_programs.MARK.parent / "until"
    chosen = getattr(tensorbow, synchroniser)(**(options or {}))
    with (
        open(host_programs.MARK.parent / f"log{rank}", "a", buffering=1) as log,
        warnings.catch_warnings(record=True) as warned,
    ):
        warnings.simplefilter("always")
        with program.session(
            addresses, rank, learners, elastic=True, synchroniser=chosen
        ) as session:
            session.run(program.init)
            while not until.exists() or session.iterations < int(until.read_text()):
                rows = session.iterations
                if waits and until.exists() and rows == int(until.read_text()) - 1:
                    _await(host_programs.MARK.parent / "go")
                log.write(json.dumps({"begins": rows}) + "\n")
                _, loss = session.run([program.train, program.loss], program.feeds(rank, rows))
                counts = session.iterations, session.learning_tasks, session.samples_seen
                done = {"rows": rows, "counts": counts, "loss": float(loss), "warned": len(warned)}
                log.write(json.dumps(done | {"values": values_of(session, program)}) + "\n")
            last = values_of(session, program)
            counts = session.iterations, session.learning_tasks, session.samples_seen
    texts = [str(w.message) for w in warned]
    return {"last": last, "counts": counts, "warned": texts}


def _await(file: pathlib.Path) -> None:
    deadline = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline, f"{file} takes too long"
        time.sleep(0.01)
