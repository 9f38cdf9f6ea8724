"""A traced training step as runs of a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tensorbow._session.plan import prepare_run
from tensorbow.keras._tracing import TracedStep
from tensorbow.keras._variables import callable_for


class Program:
    """A traced training step, ready to run.

    Args:
      step: of the session's graph.
      session: a `TensorBowSession`.

    Attributes:
      facts: what the session says of the run: see `_native.SessionHandle.describe_run`.
      written: indices, in the mirror, of the variables that it may write.
    """

    def __init__(self, step: TracedStep, session: Any) -> None:
        self.step = step
        self.written = step.written
        self._session = session
        self._num_rates = len(step.rates)
        self._outputs = step.outputs
        self._names: list[str] | None = None
        outputs = [value for value in tf.nest.flatten(step.outputs) if isinstance(value, tf.Tensor)]
        if isinstance(step.outputs, dict) and len(outputs) == len(step.outputs):
            self._names = sorted(step.outputs)  # the order in which nests are flattened
        self._fetches = [*step.rates, *outputs]
        session._extend_graph()
        self.facts: dict[str, Any] = session._native.describe_run(
            feeds=[tensor.name for tensor in step.inputs],
            fetches=[tensor.name for tensor in self._fetches],
            targets=[step.train_op.name],
        )
        self._prepared = prepare_run(session._native, step.inputs, self._fetches, [step.train_op])
        self._callable: Callable[..., Any] | None = None

    @property
    def has_warnings(self) -> bool:
        """True if the session may have warnings of the last run."""
        return self._prepared is None or self._prepared.has_warnings

    def run(self, arrays: list[np.ndarray]) -> tuple[list[np.ndarray], Any]:
        """Trains on one batch, whose rows the session divides among the learners.

        Args:
          arrays: for each of the step's inputs; [rows, ...].

        Returns:
          Scheduled learning rates, and what train_step returns.
        """
        values = None
        if self._prepared is not None:
            values = self._prepared.run(arrays)
        if values is None:  # learners do not execute it
            values = self._central_run(*arrays)
        rates, values = values[: self._num_rates], values[self._num_rates :]
        if self._names is not None:
            return rates, dict(zip(self._names, values))
        remaining = iter(values)
        logs = tf.nest.map_structure(
            lambda value: next(remaining) if isinstance(value, tf.Tensor) else value, self._outputs
        )
        return rates, {} if logs is None else logs

    def _central_run(self, *arrays: np.ndarray) -> list[Any]:
        if self._callable is None:
            step = self.step
            self._callable = callable_for(
                self._session, self._fetches, [step.train_op], step.inputs
            )
        values: list[Any] = self._callable(*arrays)
        return values
