"""The history of a session, and the comparison with the reference after every action."""

from __future__ import annotations

import functools
import pathlib
import tempfile
import warnings
from typing import Any

import numpy as np
import tensorflow as tf

import tensorbow
from tests.oracle import actions, programs
from tests.oracle.described import Described, described
from tests.oracle.reference import Reference

tf1 = tf.compat.v1


def tolerance_of(program, dtype):
    """Returns the tolerance relative to the largest element of a variable.

    In float64 only rounding remains: in the order of sums and in fused updates. float32 has eps
    = 6e-8, and a variable is changed some hundred times by terms that nearly cancel. Adam keeps
    powers in float32 in any program. The learners' mean of them is rounded. So is the rate of
    its steps, which divides by 1 - β₂² = 0.002 in the second one.
    """
    if program.dtype == "float32":
        return 2e-4
    if program.optimiser == "adam":
        return 1e-5
    return 1e-6 if dtype == np.float32 else 1e-9


@described
class Case(Described):
    """A program, a session for it, and the actions."""

    program: programs.Program
    setup: Any
    history: tuple

    def check(self):
        """Runs the history; an AssertionError names the action and the difference."""
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as directory:
            warnings.simplefilter("ignore", tensorbow.TensorBowWarning)
            comparison = Comparison(self, pathlib.Path(directory))
            try:
                comparison.run()
            finally:
                comparison.close()


@functools.lru_cache(maxsize=8)
def _kept(program):
    return programs.Built(program)


def built(program):
    """Returns the graph of a program, a new one if a history has added to the kept one."""
    if not _kept(program).is_as_built:
        _kept.cache_clear()
    return _kept(program)


class Comparison:
    """One session and its reference."""

    def __init__(self, case, directory):
        self.program, self.setup = case.program, case.setup
        self.directory = directory
        self._history = case.history
        self.built = built(case.program)
        self.reference = Reference(self.built, case.setup)
        self.session = self._new_session()
        self.batches = 0  # batches that have been drawn
        self.checks = 0
        self.saved = None  # the reference's knowledge at a saved state
        self.checkpoint = None  # the path of a Saver's checkpoint and the values
        self.elements_left = 0  # in the pipeline
        self.rate = 0.02

    def _new_session(self):
        return tensorbow.TensorBowSession(
            graph=self.built.graph, options=self.setup.options(self.built)
        )

    def reopen(self):
        """Opens another session on the same graph, with the same options."""
        self.session.close()
        self.session = self._new_session()

    def close(self):
        self.session.close()
        self.reference.close()

    def run(self):
        done = []
        for action in (actions.Initialise(), actions.Refill(), *self._history):
            done.append(action)
            try:
                action.apply(self)
                self.check()
            except AssertionError as error:
                raise AssertionError(f"after {done[2:]}:\n{error}") from error

    # -------------------------------------------------------------------------- comparing

    def close_to(self, actual, expected, what, made_of=()):
        """Checks that a value is as expected, except for rounding: its own, and that of the values
        that cancel in it."""
        expected = np.asarray(expected)
        actual = np.asarray(actual)
        if expected.dtype.kind != "f":
            np.testing.assert_array_equal(actual, expected, err_msg=what)
            return
        assert actual.dtype == expected.dtype, f"{what} is {actual.dtype}, not {expected.dtype}"
        if actual.tobytes() == expected.tobytes() and actual.shape == expected.shape:
            return
        tolerance = tolerance_of(self.program, expected.dtype)
        size = 1e-3
        for value in (expected, *made_of):
            size = np.max(np.abs(value[np.isfinite(value)]), initial=size)
        np.testing.assert_allclose(
            actual, expected, rtol=tolerance, atol=tolerance * size, err_msg=what
        )

    def check(self):
        """Checks all central values, all learners' values and all counters."""
        reference, session = self.reference, self.session
        for name in ("iterations", "learning_tasks", "samples_seen"):
            actual, expected = getattr(session, name), getattr(reference.known, name)
            assert actual == expected, f"{name} is {actual}, expected {expected}"
        names = reference.initialised()
        variables = self.built.variables
        read = session.run({name: variables[name] for name in names})
        # Values that no learner has need a run of their own, which takes time: one in turn.
        self.checks += 1
        in_turn = names[self.checks % len(names)]
        for name in names:
            expected = reference.central(name)
            owns = [own[name] for own in reference.known.values]
            self.close_to(read[name], expected, f"run({name!r})", owns)
            if name != in_turn and not reference.known.iterations:
                continue
            self.close_to(session.central(name), expected, f"central({name!r})", owns)
            if reference.decay:
                z = reference.central(name, averaged=False)
                what = f"central({name!r}, averaged=False)"
                self.close_to(session.central(variables[name], averaged=False), z, what, owns)
            for j, own in enumerate(owns):
                what = f"learner_value({name!r}, {j})"
                expected_own = own if self.setup.learners > 1 else expected
                self.close_to(session.learner_value(name, j), expected_own, what, owns)

    def draw(self, rows):
        """Draws rows that no action has used before."""
        self.batches += 1
        return self.built.batch(self.batches, rows)
