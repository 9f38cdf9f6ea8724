"""The session of a Keras model from one compilation to the next."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from tensorbow._runtime import fork
from tensorbow._runtime.messages import warn
from tensorbow._session import memory
from tensorbow.keras import _choice, _tracing, _variables
from tensorbow.keras._program import Program
from tensorbow.keras._rates import RateWatch
from tensorbow.options import Options
from tensorbow.session import TensorBowSession
from tensorbow.synchronisers import Synchroniser

# The beginning of a session's advice on feeds, which models hide.
_SESSION_ADVICE = " Name the feeds"


class FewerLearnersError(Exception):
    """Memory is short for the learners, but enough for fewer; the text has the remedy.

    Attributes:
      learners: the number that fits.
    """

    def __init__(self, learners: int, why: str) -> None:
        super().__init__(why)
        self.learners = learners


class _KerasBackedSession(TensorBowSession):
    """A session without GPUs whose synchroniser is the one that the user has chosen."""

    _traces_one_step = True

    def __init__(self, synchroniser: Synchroniser, options: Options) -> None:
        self._told = synchroniser
        # Keras's own eager runtime takes the GPUs and cannot share them.
        config = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
        super().__init__(graph=tf.Graph(), config=config, options=options)

    @property
    def synchroniser(self) -> Synchroniser:
        """The user's synchroniser; a part of its work may be done by Keras's side."""
        return self._told


class ModelSession:
    """A session, a mirror of the model's variables in it, and programs for its batches.

    Args:
      model: a compiled Keras model.
      options: the user's.
      synchroniser: of the learners.
      learners: their number, at first.

    Attributes:
      tunes: true if the session finds the best number by measuring.
    """

    def __init__(
        self, model: Any, options: Options, synchroniser: Synchroniser, learners: int
    ) -> None:
        self._model = model
        self._options = options
        chosen = _choice.session_options(model, options, synchroniser, learners)
        self.session: TensorBowSession = _KerasBackedSession(synchroniser, chosen)
        self.tunes = self.session.tunes_learners
        self.mirror = _variables.Mirror(self.session)
        # True if there are several replicas, here or on other hosts.
        self._several = learners > 1 or options.other_hosts is not None
        self._divides = learners > 1 or options.batch_size is not None
        self._rates: RateWatch | None = None
        if _choice.watches_rates(synchroniser, learners):
            self._rates = RateWatch(self.session.restart)
            self.mirror.on_push = self._rates.note_pushed
        self._programs: dict[str, Program] = {}
        self._specs: dict[str, Any] = {}

    @property
    def is_alone(self) -> bool:
        """True if the session has found that one learner is fastest.

        Nothing is divided then, and its step may be traced for known shapes, as in stock Keras.
        Loops for any number of rows take half as much processor time again.
        """
        if not self.tunes or self.session.num_learners > 1:
            return False
        return any(tried.chosen for tried in self.session.tuning)

    @property
    def has_programs(self) -> bool:
        """True if a training step has been traced."""
        return bool(self._programs)

    def program_for(self, spec: Any) -> Program:
        """Returns the program for batches of this spec, traced when needed.

        Where batches are divided, a program takes any number of rows. As in stock Keras, a
        second shape for the same structure makes one program for all shapes, so that a
        program is not traced for every new one.

        Raises:
          CannotTraceError: if learners cannot execute the model's training step.
          FewerLearnersError: if memory is short for a number of learners that is not the user's.
          tf.errors.ResourceExhaustedError: if memory is short for a number of the user's.
        """
        divides = self._divides and not self.is_alone
        if divides:
            spec = tf.nest.map_structure(_any_rows, spec)
        program = self._programs.get(repr(spec))
        if program is None:
            family = repr((divides, tf.nest.map_structure(_any_shape, spec)))
            known = self._specs.get(family)
            if known is not None:
                spec = tf.nest.map_structure(_common, known, spec)
                program = self._programs.get(repr(spec))
            self._specs[family] = spec
        if program is None:
            program = self._programs[repr(spec)] = self._trace(spec)
        return program

    def _trace(self, spec: Any) -> Program:
        several = self._several
        inputs = getattr(self._model, "inputs", None) or []
        if self._divides and any(tensor.shape[0] is not None for tensor in inputs):
            raise _tracing.CannotTraceError("its inputs have a fixed number of rows")
        step = _tracing.trace(
            self._model,
            spec,
            self.mirror,
            self.session.graph,
            with_rates=self._rates is not None,
        )
        program = Program(step, self.session)
        why = program.facts["why_one_learner"]
        if why and self._options.other_hosts is not None:
            raise _tracing.CannotTraceError(f"several hosts cannot execute train_step: {why}")
        self._check_memory(step)
        self._warn()
        if several and program.facts["kind"] != "learning":
            warn(
                f"tensorbow.keras: the training step of {self._model.name!r} updates no trainable "
                "variable by what it reads of them; it runs on one learner"
            )
        return program

    def _check_memory(self, step: _tracing.TracedStep) -> None:
        """Raises, before learners are made, if memory is short for them."""
        if self.session.iterations > 0:
            return
        graph, learners = self.session.graph, self.session.num_learners
        # The session's variables have no values yet: they will be one more copy.
        own = memory.variable_bytes(graph.get_operations())
        available = memory.available_bytes()
        if available is None or not memory.may_be_short(own, learners, available):
            return
        trainable = graph.get_collection(tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES)
        needs = memory.needs_of(
            [step.train_op], [handle.op.name for handle in trainable], self.session.synchroniser
        )
        needs = dataclasses.replace(needs, session_bytes=own)
        fit = memory.learners_to_have(needs, learners, available, self._options)
        if fit < learners:
            raise FewerLearnersError(fit, memory.advice(needs, learners, available))

    def run(self, program: Program, arrays: list[np.ndarray]) -> Any:
        """Trains on one batch; returns what train_step returns."""
        if self.session._closed:
            fork.refuse_closed()
        mirror = self.mirror
        if mirror.dirty or mirror.shared:
            mirror.push()
        try:
            rates, logs = program.run(arrays)
        finally:
            mirror.mark_stale(program.written)
        if self._rates is not None and rates:
            self._rates.note_scheduled(rates)
        if program.has_warnings:
            self._warn()
        if self.tunes:
            self.session._tuning_log.after_run(self.session._native)
        return logs

    def _warn(self) -> None:
        """Passes on the warnings of the session."""
        for text in self.session._native.take_warnings():
            text = text.partition(_SESSION_ADVICE)[0]
            warn(text, graph=self.session.graph)

    def learner_value(self, variable: Any, learner: int) -> np.ndarray:
        """Returns the value of a learner, which exists; see `tensorbow.keras.learner_value`."""
        self.mirror.push()
        try:
            name = self.mirror.name_of(variable.value)
        except KeyError:
            return variable.numpy()
        return self.session.learner_value(name, learner)

    def close(self) -> None:
        """Ends the session; the variables are Keras's own again, up to date."""
        self.mirror.release()
        self.session.close()


def _any_rows(leaf: Any) -> Any:
    if leaf is None or not leaf.shape.rank:
        return leaf
    return tf.TensorSpec([None, *leaf.shape[1:]], leaf.dtype)


def _any_shape(leaf: Any) -> Any:
    return None if leaf is None else (leaf.dtype, leaf.shape.rank)


def _common(a: Any, b: Any) -> Any:
    """Returns the shape of both: unknown where they differ."""
    if a is None:
        return None
    dims = [m if m == n else None for m, n in zip(a.shape, b.shape)]
    return tf.TensorSpec(dims, a.dtype)
