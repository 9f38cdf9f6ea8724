"""The programs of elastic hosts that are killed and started again, beside feed programs; see
hosts.py.

Every program trains until as many iterations count as the file "until" says. Its batches start
again when they end, and when it is started again. It logs the batches that it has trained on,
and the weights afterwards.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import tensorflow as tf

import tensorbow
from tests.python import host_programs
from tests.python.host_programs import ROWS, Regression, rows_of

BATCHES = 50


class _Log:
    def __init__(self, rank: int) -> None:
        self._path = host_programs.MARK.parent / f"log{rank}"
        self._until = host_programs.MARK.parent / "until"
        self._trained = 0

    def note(self, session: Any, values: list[float]) -> bool:
        """Logs a batch; returns whether it was the last one."""
        counts = _counts(session)
        entry = {"rows": self._trained % BATCHES, "counts": counts, "values": values}
        with self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        self._trained += 1
        return self._until.exists() and counts[0] >= int(self._until.read_text())


def _counts(session: Any) -> tuple[int, int, int]:
    return session.iterations, session.learning_tasks, session.samples_seen


def _result(session: Any, values: list[float]) -> dict[str, Any]:
    return {"last": values, "counts": _counts(session)}


def session_trains(rank: int, addresses: list[str], synchroniser: str) -> dict[str, Any]:
    """Trains in a session, on a tf.data pipeline."""
    program = Regression(rank, momentum=0.0, elements=BATCHES, repeats=True)
    log = _Log(rank)
    chosen = getattr(tensorbow, synchroniser)()
    with program.session(addresses, rank, 1, elastic=True, synchroniser=chosen) as session:
        session.run([program.init, program.iterator.initializer])

        def values() -> list[float]:
            return np.append(*session.run([program.w, program.b])).tolist()

        session.run(program.train)
        while not log.note(session, values()):
            session.run(program.train)
        return _result(session, values())


def keras_fits(rank: int, addresses: list[str], synchroniser: str) -> dict[str, Any]:
    """Trains in Keras's `fit`, on a `tf.data.Dataset`."""
    import keras

    model = host_programs.keras_regression(rank, addresses, 1, synchroniser)
    log = _Log(rank)

    def values() -> list[float]:
        return np.append(*(w.ravel() for w in model.get_weights())).tolist()

    def after_batch(batch: int, logs: Any = None) -> None:
        model.stop_training = log.note(tensorbow.keras.session_of(model), values())

    x, y = map(np.concatenate, zip(*(rows_of(rank, k) for k in range(BATCHES))))
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(ROWS).repeat()
    callback = keras.callbacks.LambdaCallback(on_train_batch_end=after_batch)
    model.fit(data, steps_per_epoch=1_000_000, verbose=0, callbacks=[callback])
    return _result(tensorbow.keras.session_of(model), values())
