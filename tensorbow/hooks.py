"""Hooks for sessions that a framework creates."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from tensorbow.metrics import Metrics
from tensorbow.session import TensorBowSession

tf1 = tf.compat.v1


def write_scalars(writer: Any, metrics: Metrics, step: int) -> None:
    """Adds the numbers to a `tf.compat.v1.summary.FileWriter`, as `tensorbow/<name>`."""
    summary = tf1.Summary(
        value=[
            tf1.Summary.Value(tag=f"tensorbow/{name}", simple_value=value)
            for name, value in metrics.scalars().items()
        ]
    )
    writer.add_summary(summary, step)


class MetricsHook(tf.compat.v1.train.SessionRunHook):
    """Writes `session.metrics()` for TensorBoard while a `MonitoredSession` trains.

    Args:
      output_dir: folder of the event files.
      every_runs: runs from one entry to the next, at least 1.

    The step of an entry is the graph's global step where it has one, else the number of
    iterations. Sessions without learners are left alone.

    Raises:
      TypeError, ValueError: for an argument that is not one of these.

    Example:
      >>> hooks = [tensorbow.MetricsHook("logs")]
      >>> with tf.compat.v1.train.MonitoredSession(
      ...     tensorbow.SessionCreator(), hooks=hooks) as session:
      ...     session.run(train_op)
    """

    def __init__(self, output_dir: str | os.PathLike[str], every_runs: int = 100) -> None:
        if not isinstance(output_dir, (str, os.PathLike)):
            raise TypeError(f"MetricsHook: output_dir must be a path, got {output_dir!r}")
        if isinstance(every_runs, bool) or not isinstance(every_runs, int):
            raise TypeError(f"MetricsHook: every_runs must be an int, got {every_runs!r}")
        if every_runs < 1:
            raise ValueError(f"MetricsHook: every_runs must be at least 1, got {every_runs}")
        self._output_dir = os.fspath(output_dir)
        self._every_runs = every_runs
        self._runs = 0
        self._writer: Any = None
        self._global_step: Any = None

    def begin(self) -> None:
        """Opens the file, before the session is made."""
        self._writer = tf1.summary.FileWriter(self._output_dir)
        self._global_step = tf1.train.get_global_step()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes metrics if it is time to."""
        self._runs += 1
        if self._runs % self._every_runs == 0:
            self._write(run_context.session)

    def end(self, session: Any) -> None:
        """Writes the last entry."""
        if self._runs % self._every_runs:
            self._write(session)
        self._writer.close()

    def _write(self, session: Any) -> None:
        if not isinstance(session, TensorBowSession):
            return
        step = session.iterations
        if self._global_step is not None:
            step = int(session.run(self._global_step))
        write_scalars(self._writer, session.metrics(), step)
