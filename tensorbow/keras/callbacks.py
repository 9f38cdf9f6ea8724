"""Callbacks for replicated models."""

from __future__ import annotations

import os
from typing import Any

import keras
import tensorflow as tf

from tensorbow.keras._replication import replication_of


class MetricsCallback(keras.callbacks.Callback):
    """Writes how the learners of a replicated model fare, for TensorBoard.

    At the end of every epoch, as `tensorbow/<name>` with the number of training batches
    so far as the step; see `tensorbow.Metrics`. Models without learners are left alone.

    Args:
      log_dir: folder of the event files.

    Raises:
      TypeError: if `log_dir` is not a path.

    Example:
      >>> model.fit(x, y, callbacks=[tensorbow.keras.MetricsCallback("logs")])
    """

    def __init__(self, log_dir: str | os.PathLike[str]) -> None:
        super().__init__()
        if not isinstance(log_dir, (str, os.PathLike)):
            raise TypeError(f"MetricsCallback: log_dir must be a path, got {log_dir!r}")
        self._log_dir = os.fspath(log_dir)
        self._writer: Any = None
        self._batches = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Opens the event file."""
        self._writer = tf.summary.create_file_writer(self._log_dir)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Counts a batch."""
        self._batches += 1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Writes metrics."""
        replication = replication_of(self.model)
        session = None if replication is None else replication.session
        if session is None:
            return
        with self._writer.as_default():
            for name, value in session.metrics().scalars().items():
                tf.summary.scalar(f"tensorbow/{name}", value, step=self._batches)

    def on_train_end(self, logs: Any = None) -> None:
        """Closes the event file."""
        self._writer.close()
