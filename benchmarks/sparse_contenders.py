"""Ways to train on sparse rows and to read them, for contenders.py."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import power_law

import tensorbow
from tensorbow import data
from tensorbow.cli.train import extreme

BATCHES = 32  # different batches that are fed in turn
SWEEP_LABELS = 10
RATES = {"sgd": 0.05, "adagrad": 0.05, "adam": 0.003}


def _resident(key: str) -> int:
    """Returns bytes of this process, VmRSS or VmHWM."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:"))


class _Training:
    """Trains on some batches in turn."""

    def __init__(self, program: Any, session: Any, feeds: list[dict[Any, Any]]) -> None:
        self._program, self._session, self._feeds = program, session, feeds
        self._at = 0
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        self._before = _resident("VmRSS")
        session.run(program.init)

    def __call__(self, steps: int) -> None:
        for _ in range(steps):
            self._session.run(self._program.train_op, self._feeds[self._at % len(self._feeds)])
            self._at += 1

    def value(self) -> float:
        """Returns the most bytes by which the process has grown since the session exists."""
        return _resident("VmHWM") - self._before


def sparse_session(
    model: str,
    rows: int,
    path: str = "",
    features: int = 0,
    hidden: int = extreme.HIDDEN,
    optimiser: str = "adam",
    learners: int = 0,
    synchroniser: str = "SSGD",
    adaptive: dict[str, Any] | None = None,
) -> _Training:
    """Trains the model of extreme labels, on a file or on artificial rows.

    Args:
      model: only a name.
      rows: that are fed in a step.
      path: of a file in the LIBSVM format without a header; "" for rows with as many features a
        row as Amazon-670K has.
      features: of rows that are made up.
      learners: 0 is a stock session.
      adaptive: arguments of AdaptiveSGD.
    """
    import tensorflow as tf

    tf1 = tf.compat.v1
    tf1.disable_eager_execution()
    if path:
        labelled = extreme.load(path, path)
        features, labels, train = labelled.features, labelled.labels, labelled.train
    else:
        labels = SWEEP_LABELS
        statistics = dataclasses.replace(
            power_law.AMAZON_670K, features=features, labels=labels, labels_a_row=1.0
        )
        train = power_law.rows(statistics, BATCHES * rows)
    optimisers = {
        "sgd": tf1.train.GradientDescentOptimizer,
        "adagrad": tf1.train.AdagradOptimizer,
        "adam": tf1.train.AdamOptimizer,
    }
    program = extreme.build(
        features, labels, lambda: optimisers[optimiser](RATES[optimiser]), seed=1, hidden=hidden
    )
    rng = np.random.default_rng(0)
    feeds = []
    for _ in range(BATCHES):
        order = rng.permutation(len(train))[:rows]
        feeds.append(program.feeds(train.in_order(order)) | {program.dropout: np.float32(0.3)})
    if learners == 0:
        return _Training(program, tf1.Session(graph=program.graph), feeds)
    options = tensorbow.Options(
        learners_per_device=learners,
        synchroniser=getattr(tensorbow, synchroniser)(**(adaptive or {})),
        shard=[program.x, program.y],
    )
    session = tensorbow.TensorBowSession(graph=program.graph, options=options)
    return _Training(program, session, feeds)


class _Reading:
    """A stepper that reads a file in every step."""

    def __init__(self, read: Callable[[], None]) -> None:
        self._read = read
        self._seconds = 0.0

    def __call__(self, steps: int) -> None:
        begin = time.process_time()
        for _ in range(steps):
            self._read()
        self._seconds = (time.process_time() - begin) / steps

    def value(self) -> float:
        """Returns the CPU seconds of one of the last steps, independent of the machine's load."""
        return self._seconds


def _plain(dataset: Any) -> Any:
    """Turns autotuning off, which has nothing to tune here. An iterator that waits for long
    sometimes ends only when it wakes up by itself, seconds later."""
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def _through_session(dataset: Any) -> Callable[[], None]:
    """Reads the data in a session of this graph, a batch in every run."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    iterator = tf1.data.make_initializable_iterator(dataset)
    x, y = iterator.get_next()
    session = tf1.Session()
    take = session.make_callable(tf.group(x.values, y.values))

    def read() -> None:
        session.run(iterator.initializer)
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while True:
                take()

    return read


def sparse_reader(
    model: str, rows: int, path: str, features: int, labels: int, batch: int = 256
) -> _Reading:
    """Reads a file without a header, once in a step.

    Args:
      model: "loop" for `tensorbow.data.libsvm` whose batches Python takes, "session" where a
        session takes them, "shuffled" and "ragged" for Python with other batches,
        "scikit-learn" for `load_svmlight_file`, "bytes" for reading without understanding.
    """

    def bytes_of_file() -> None:
        with open(path, "rb") as file:
            while file.read(1 << 20):
                pass

    def scikit_learn() -> None:
        from sklearn.datasets import load_svmlight_file

        load_svmlight_file(
            path, n_features=features, multilabel=True, dtype=np.float32, zero_based=True
        )

    if model in ("scikit-learn", "bytes"):
        return _Reading(scikit_learn if model == "scikit-learn" else bytes_of_file)
    import tensorflow as tf

    options: dict[str, Any] = {"features": features, "labels": labels, "zero_based": True}
    if model == "shuffled":
        options["shuffle"] = 10_000
    elif model == "ragged":
        options["form"] = "ragged"
    if model == "session":
        with tf.Graph().as_default():
            return _Reading(_through_session(_plain(data.libsvm(path, batch, **options))))
    dataset = _plain(data.libsvm(path, batch, **options))

    def stream() -> None:
        for _ in dataset:
            pass

    return _Reading(stream)


def resident_while_streaming(path: str, features: int, labels: int, rows: int) -> dict[str, Any]:
    """Returns the bytes of this process after each tenth of the rows."""
    counts, sizes, seen = [], [], 0
    dataset = data.libsvm(path, 256, features=features, labels=labels, zero_based=True)
    for x, _ in dataset:
        seen += int(x.dense_shape[0])
        if 10 * seen // rows > len(counts):
            counts.append(seen)
            sizes.append(_resident("VmRSS"))
    return {"rows": counts, "resident": sizes, "file_bytes": pathlib.Path(path).stat().st_size}


if __name__ == "__main__":
    print(json.dumps(resident_while_streaming(**json.loads(sys.argv[1]))))
