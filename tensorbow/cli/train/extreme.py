"""Sparse rows with several of many labels each: the data and the model of `tensorbow train
--model xml`.

The model is that of Ma and Rusu (arXiv 2110.07029): sparse rows → hidden ReLUs → softmax over
the labels, cross-entropy with 1 / |labels| for each true label. An ordinary program of
TensorFlow 1: nothing in here knows of TensorBow's sessions.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tensorbow import training
from tensorbow.cli.train.turns import Progress
from tensorbow.data import _libsvm

tf1 = tf.compat.v1

# The defaults of the command; they reach more than 62 % precision@1 on Bibtex.
DEFAULTS: dict[str, Any] = {
    "batch_size": 128,
    "epochs": 10,
    "optimiser": "adam",
    "learning_rate": 0.002,
    "dropout": 0.3,
    "target": 0.62,
}
HIDDEN = 128
TOP = (1, 3, 5)  # the k of precision@k
_EVALUATION_ROWS = 1000
_UNKNOWN = 2**40  # columns or labels that a file without a header may have


@dataclasses.dataclass(frozen=True)
class Labelled:
    """A data set of sparse rows with labels.

    Attributes:
      name: what it is, for the reader.
      features, labels: how many there are.
      train, test: the rows.
    """

    name: str
    features: int
    labels: int
    train: _libsvm.Rows
    test: _libsvm.Rows

    @property
    def summary(self) -> str:
        """The size, as text."""
        return (
            f"{len(self.train)} training and {len(self.test)} test rows of {self.features} "
            f"features, {self.labels} labels"
        )

    @property
    def num_rows(self) -> int:
        """The number of training rows."""
        return len(self.train)


def load(train: str | pathlib.Path, test: str | pathlib.Path) -> Labelled:
    """Reads two files in the LIBSVM format, see `tensorbow.data.libsvm`.

    Without headers there are as many features and labels as the files name.

    Raises:
      OSError, ValueError: for what is no such file, with the line.
    """
    files = [_libsvm.Files([str(p)], None, None, None, "error", _UNKNOWN) for p in (train, test)]
    sizes = []
    parts = []
    for path, file in zip((train, test), files):
        blocks = list(file.blocks())
        if not blocks:
            raise ValueError(f"{path} has no rows")
        rows = _libsvm.Rows.together(blocks)
        named = [1 + int(numbers.max(initial=0)) for numbers in (rows.columns, rows.labels)]
        told = [file.features, file.labels]
        sizes.append([n if t == _UNKNOWN else t for t, n in zip(told, named)])
        parts.append(rows)
    features, labels = np.max(sizes, axis=0)
    return Labelled(pathlib.Path(train).name, int(features), int(labels), *parts)


def sparse_value(ends: np.ndarray, columns: np.ndarray, values: np.ndarray, width: int) -> Any:
    """Returns the value of a sparse placeholder for rows that end at `ends`, which begins with
    0."""
    rows = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    shape = (len(ends) - 1, width)
    return tf1.SparseTensorValue(np.stack([rows, columns], axis=1), values, shape)


@dataclasses.dataclass(frozen=True)
class Program:
    """A training program: what to feed and what to run.

    Attributes:
      graph: the graph that holds everything else.
      x: sparse placeholder, the rows, float32 [rows, features].
      y: sparse placeholder, a one for each true label, float32 [rows, labels].
      dropout: fraction of the hidden units that are left out; 0 unless it is fed.
      loss: mean cross-entropy over the rows, scalar.
      train_op: one optimiser step.
      top: the labels with the greatest logits, best first, int32 [rows, 5 or all labels].
      init: initialises all variables.
    """

    graph: tf.Graph
    x: Any
    y: Any
    dropout: Any
    loss: Any
    train_op: Any
    top: Any
    init: Any

    def feeds(self, rows: _libsvm.Rows) -> dict[Any, Any]:
        """Returns the feeds for these rows."""
        x_width, y_width = (int(t.shape[1]) for t in (self.x, self.y))
        ones = np.ones(len(rows.labels), np.float32)
        return {
            self.x: sparse_value(rows.ends, rows.columns, rows.values, x_width),
            self.y: sparse_value(rows.label_ends, rows.labels, ones, y_width),
        }


def build(
    features: int,
    labels: int,
    optimiser: Callable[[], Any],
    seed: int | None = None,
    hidden: int = HIDDEN,
) -> Program:
    """Builds the model and its training step in a graph of its own.

    Args:
      features, labels: how many there are.
      optimiser: called inside the graph, returns a `tf.compat.v1.train.Optimizer`.
      seed: of the initial weights and of the dropout; None for others every time.
      hidden: units.
    """
    graph = tf.Graph()
    with graph.as_default():
        tf1.set_random_seed(seed)
        x = tf1.sparse_placeholder(tf.float32, [None, features], "x")
        y = tf1.sparse_placeholder(tf.float32, [None, labels], "y")
        dropout = tf1.placeholder_with_default(np.float32(0), [], "dropout")

        def layer(name: str, inputs: int, units: int) -> tuple[Any, Any]:
            glorot = tf1.initializers.glorot_normal(seed=seed)
            with tf1.variable_scope(name, use_resource=True):
                kernel = tf1.get_variable("kernel", [inputs, units], initializer=glorot)
                bias = tf1.get_variable("bias", [units], initializer=tf1.zeros_initializer())
            return kernel, bias

        kernel, bias = layer("hidden", features, hidden)
        units = tf.nn.relu(tf.sparse.sparse_dense_matmul(x, kernel) + bias)
        units = tf.nn.dropout(units, rate=dropout, seed=seed)
        kernel, bias = layer("logits", hidden, labels)
        logits = tf.matmul(units, kernel) + bias
        true = tf.sparse.to_dense(y)
        targets = true / tf.reduce_sum(true, axis=1, keepdims=True)
        entropy = tf.nn.softmax_cross_entropy_with_logits(labels=targets, logits=logits)
        loss = tf.reduce_mean(entropy, name="loss")
        train_op = optimiser().minimize(loss, name="train_op")
        top = tf.math.top_k(logits, min(TOP[-1], labels)).indices
        init = tf1.global_variables_initializer()
    return Program(graph, x, y, dropout, loss, train_op, top, init)


def precision(session: Any, program: Program, rows: _libsvm.Rows) -> list[float]:
    """Returns precision@k for k in `TOP`: the share of the k most likely labels that are true,
    averaged over the rows."""
    hits = np.zeros(TOP[-1])
    for begin in range(0, len(rows), _EVALUATION_ROWS):
        part = rows.slice(begin, min(len(rows), begin + _EVALUATION_ROWS))
        top = session.run(program.top, {program.x: program.feeds(part)[program.x]})
        for i, guesses in enumerate(top):
            true = part.labels[part.label_ends[i] : part.label_ends[i + 1]]
            hits[: len(guesses)] += np.isin(guesses, true)
    return [float(hits[:k].sum() / (k * len(rows))) for k in TOP]


def train(
    progress: Progress,
    session: Any,
    program: Program,
    data: Labelled,
    rows_per_run: int,
    seed: int,
    feeds_of_epoch: Callable[[int], dict[Any, Any]] | None = None,
    dropout: float = 0.0,
) -> Iterator[tuple[int, float]]:
    """Trains without end, evaluating after each epoch; arguments as of `training.train`.

    The progress has precision@1 as its accuracy, and the others beside it.
    """

    def evaluate() -> float:
        found = precision(session, program, data.test)
        progress.precision.append(found)
        return found[0]

    def feeds(rows: np.ndarray) -> dict[Any, Any]:
        return program.feeds(data.train.in_order(rows)) | {program.dropout: np.float32(dropout)}

    return training.run_epochs(
        progress,
        session,
        program,
        len(data.train),
        feeds,
        evaluate,
        rows_per_run,
        seed,
        feeds_of_epoch,
    )
