"""Cases of accelerator_test.py in which the number of learners on an accelerator changes."""

from __future__ import annotations

import pathlib
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import tensorbow
from tests.python.emulated_sessions import (
    Emulator,
    Program,
    assert_same,
    new_session,
    values,
)

_SECONDS = 60  # enough for the tuner to advance


def _train(session: Any, program: Program, first: int, runs: int) -> None:
    for number in range(first, first + runs):
        session.run(program.train, program.feeds(number))


def _through_layouts(program: Program, devices: int, learners: list[int]) -> list[np.ndarray]:
    """Returns all replicas and the central model with each of these numbers of learners, counted
    over all devices."""
    made = []
    with new_session(
        program, learners_per_device=learners[0] // devices, synchroniser=tensorbow.SMA()
    ) as session:
        session.run(program.init)
        _train(session, program, 0, 3)
        for change, number in enumerate(learners[1:], 1):
            before = session.run([*program.weights, program.step])
            session.set_learners(number // devices, threads=1)
            assert session.num_learners == number
            assert_same(session.run([*program.weights, program.step]), before)
            _train(session, program, 3 * change, 3)
            made += values(session, program)
    return made


def learners_come_and_go(emulator: Emulator) -> None:
    """Compares replicas, slots and the central model with those without an accelerator, bit for
    bit."""
    programs = [Program("adam", True), Program("momentum")]
    one_device = [2, 3, 1, 4, 2]
    expected = [_through_layouts(program, 1, one_device) for program in programs]
    on_two = _through_layouts(programs[0], 1, [2, 4, 6, 2])
    emulator.start()
    for program, wanted in zip(programs, expected):
        assert_same(_through_layouts(program, 1, one_device), wanted)
    emulator.start(number=2)
    assert_same(_through_layouts(programs[0], 2, [2, 4, 6, 2]), on_two)
    assert emulator.transfers[0] > 0


def state_brings_its_learners(emulator: Emulator) -> None:
    """Checks that a saved state sets the number of learners, if the devices can have it."""
    program = Program("adam", True)
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "state")
        emulator.start()
        with new_session(program, learners_per_device=3) as session:
            session.run(program.init)
            _train(session, program, 0, 3)
            session.save_state(path)
            _train(session, program, 3, 3)
            expected = values(session, program)
        with new_session(program, learners_per_device=1) as session:
            session.load_state(path)
            assert session.num_learners == 3
            _train(session, program, 3, 3)
            assert_same(values(session, program), expected)
        emulator.start(number=2)
        with new_session(program, learners_per_device=1) as session:
            try:
                session.load_state(path)
                raise AssertionError("3 learners on 2 devices")
            except tf.errors.FailedPreconditionError as error:
                assert "got 2 for 3 learners" in str(error)
            assert session.num_learners == 2


def number_is_found(emulator: Emulator) -> None:
    """Finds the number by CROSSBOW's Algorithm 2: from one learner on, one more each time."""
    emulator.start()
    program = Program("momentum", True)
    program.graph.seed = None
    with new_session(program, learners_per_device=None, scheduling="fcfs") as session:
        assert session.tunes_learners and session.num_learners == 1
        session.run(program.init)
        number, end = 0, time.monotonic() + _SECONDS
        while not any(tried.chosen for tried in session.tuning) and time.monotonic() < end:
            _train(session, program, number, 20)
            number += 20
        tried = session.tuning
        assert [measured.learners for measured in tried] == list(range(1, len(tried) + 1))
        best = max(tried, key=lambda measured: measured.samples_per_second)
        assert best.chosen and session.num_learners == best.learners
        rates = [measured.samples_per_second for measured in tried]
        # It continues exactly as long as one more learner gains more than a tenth.
        assert all(b > 1.1 * a for a, b in zip(rates[:-2], rates[1:-1]))
        assert rates[-1] <= 1.1 * rates[-2]
        assert session.run(program.step) == number


def _peak(program: Program, rows: int) -> int:
    """Returns the bytes that one learner needs for tasks of this many rows."""
    with new_session(program, learners_per_device=1) as session:
        session.run(program.init)
        session.run(program.train, program.feeds(0, rows))
        return int(session.metrics().learners[0].peak_memory_bytes)


def what_does_not_fit_is_skipped(emulator: Emulator) -> None:
    """Checks that the next learner is not tried if the first one's memory shows that it does not
    fit."""
    program = Program("momentum", True)
    program.graph.seed = None
    emulator.start()
    peak = _peak(program, 4000)
    emulator.start(memory_bytes=peak * 3 // 2)
    with new_session(program, learners_per_device="auto", scheduling="fcfs") as session:
        session.run(program.init)
        end = time.monotonic() + _SECONDS
        while len(session.tuning) < 2 and time.monotonic() < end:
            session.run(program.train, program.feeds(0, 4000))
        one, two = session.tuning
        assert (one.learners, one.chosen, two.learners) == (1, True, 2)
        assert two.note.startswith("skipped: The device's memory is short for so many learners"), (
            two
        )
        assert session.num_learners == 1
    with new_session(program, learners_per_device=1) as session:
        session.run(program.init)
        session.run(program.train, program.feeds(0, 4000))
        try:
            session.set_learners(2)
            raise AssertionError("two learners fit")
        except tf.errors.ResourceExhaustedError as error:
            assert "of which 1 fit" in str(error)
        session.run(program.train, program.feeds(0, 4000))
        assert session.num_learners == 1


def run_without_memory_is_made_by_fewer(emulator: Emulator) -> None:
    """Checks that a run with too many learners does not fail during the search for the number."""
    rows = 4000
    program = Program("sgd", True)
    program.graph.seed = None
    emulator.start()
    emulator.start(memory_bytes=_peak(program, rows) * 3 // 2)
    options = {"learners_per_device": "auto", "scheduling": "fcfs", "batch_size": rows}
    with new_session(program, **options) as session:
        session.run(program.init)
        end = time.monotonic() + _SECONDS
        while session.num_learners < 2 and time.monotonic() < end:
            session.run(program.train, program.feeds(0, 2))
        assert session.num_learners == 2
        iterations = session.iterations
        loss = session.run([program.loss, program.train], program.feeds(1, 2 * rows))[0]
        assert np.isfinite(loss) and session.num_learners == 1
        assert session.iterations == iterations + 2
        note = session.tuning[-1].note
        assert note.startswith("skipped: ") and "2 learners share" in note, note


CASES: dict[str, Callable[[Emulator], None]] = {
    case.__name__: case
    for case in (
        learners_come_and_go,
        state_brings_its_learners,
        number_is_found,
        what_does_not_fit_is_skipped,
        run_without_memory_is_made_by_fewer,
    )
}
