"""The losses of drawn programs, and terms that have an effect only in later runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.oracle.grammar.feeds import CLASSES, TOKENS, UNITS

tf1 = tf.compat.v1
mean, total, square = tf.reduce_mean, tf.reduce_sum, tf.square


@dataclasses.dataclass
class Batch:
    """The inputs of a loss: the scope, activations and a prediction for each row."""

    s: Any
    h: Any
    out: Any

    @property
    def y(self) -> Any:
        return self.s.feed("y")

    @property
    def c(self) -> Any:
        return self.s.feed("c")

    @property
    def mask(self) -> Any:
        return self.s.feed("mask")

    @property
    def weights(self) -> Any:
        return self.s.feed("weights")

    @property
    def apart(self) -> Any:
        """Returns the activations, with equal units apart, whose order would be by rounding."""
        return self.h + 1e-3 * np.arange(1.0, 1.0 + UNITS)

    @property
    def errors(self) -> Any:
        """Returns the squared error of each row."""
        return square(self.out - self.y)

    @property
    def logits(self) -> Any:
        return tf.matmul(self.h, self.s.weight("classes", UNITS, CLASSES))

    @property
    def entropies(self) -> Any:
        """Returns the cross-entropy of each row."""
        return tf1.nn.sparse_softmax_cross_entropy_with_logits(labels=self.c, logits=self.logits)

    @property
    def real_rows(self) -> Any:
        return tf.cast(self.s.rows, tf.float64)


Loss = Callable[[Batch], Any]

MEANS: dict[str, Loss] = {
    "mean": lambda b: mean(b.errors),
    "sum": lambda b: 0.1 * total(b.errors),
    "sum by rows": lambda b: total(b.errors) / b.real_rows,
    "sum by a constant": lambda b: total(b.errors) / 8.0,
    "masked": lambda b: total(b.errors * b.mask) / total(b.mask),
    "masked, at least one": lambda b: total(b.errors * b.mask) / tf.maximum(total(b.mask), 1.0),
    "masked, no nan": lambda b: tf.math.divide_no_nan(total(b.errors * b.mask), total(b.mask)),
    "boolean mask": lambda b: mean(tf.boolean_mask(b.errors, b.mask > 0)),
    "weighted": lambda b: mean(b.errors * b.weights),
    "weighted by their sum": lambda b: total(b.errors * b.weights) / total(b.weights),
    "class weights": lambda b: mean(
        b.errors * tf.gather(tf.constant([1.0, 0.5, 2.0], tf.float64), b.c)
    ),
    "balanced classes": lambda b: mean(
        b.errors / (1.0 + tf.gather(total(tf.one_hot(b.c, CLASSES, dtype=tf.float64), 0), b.c))
    ),
    "ratio of sums": lambda b: total(b.errors) / (total(square(b.h)) + 1.0),
    "ratio of means": lambda b: mean(b.errors) / (mean(square(b.h)) + 0.2),
    "r squared": lambda b: total(b.errors) / (total(square(b.y - mean(b.y))) + 1.0),
    "root": lambda b: tf.sqrt(mean(b.errors) + 0.05),
    "logarithm": lambda b: tf.math.log(mean(b.errors) + 1.0),
    "by a stopped mean": lambda b: mean(b.errors) / (tf.stop_gradient(mean(b.errors)) + 0.5),
    "huber": lambda b: mean(tf1.where(b.errors < 1.0, b.errors, 2.0 * tf.sqrt(b.errors) - 1.0)),
    "clipped rows": lambda b: mean(tf.minimum(b.errors, 1.5)),
    "hinge": lambda b: mean(tf.nn.relu(1.0 - b.out * tf.sign(b.y))),
    "log cosh": lambda b: mean(tf.math.softplus(2.0 * (b.out - b.y)) - (b.out - b.y)),
    "losses.mean_squared_error": lambda b: tf1.losses.mean_squared_error(b.y, b.out),
    "losses, weighted": lambda b: tf1.losses.mean_squared_error(b.y, b.out, b.mask),
    "moments": lambda b: mean(b.errors) + total(square(mean(b.h, 0) - 0.2)),
    "covariance": lambda b: (
        mean(b.errors)
        + 0.1 * total(square(tf.matmul(b.h, b.h, transpose_a=True) / b.real_rows - 0.3))
    ),
}

CLASSIFIERS: dict[str, Loss] = {
    "sparse softmax": lambda b: mean(b.entropies),
    "dense softmax": lambda b: mean(
        tf1.nn.softmax_cross_entropy_with_logits_v2(
            labels=tf.one_hot(b.c, CLASSES, dtype=tf.float64), logits=b.logits
        )
    ),
    "masked softmax": lambda b: total(b.entropies * b.mask) / total(b.mask),
    "focal": lambda b: mean(square(1.0 - tf.exp(-b.entropies)) * b.entropies),
    "sigmoid": lambda b: mean(
        tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.one_hot(b.c, CLASSES, dtype=tf.float64), logits=b.logits
        )
    ),
    "by hand": lambda b: (
        -mean(
            tf.math.log(
                tf.reduce_sum(
                    tf.nn.softmax(b.logits) * tf.one_hot(b.c, CLASSES, dtype=tf.float64), 1
                )
                + 1e-6
            )
        )
    ),
    "own column": lambda b: (
        -mean(tf.gather_nd(tf.nn.log_softmax(b.logits), tf.stack([tf.range(b.s.rows), b.c], 1)))
    ),
    "policy gradient": lambda b: mean(b.entropies * (b.y - mean(b.y))),
    "advantage": lambda b: mean(
        b.entropies
        * tf.stop_gradient(b.y - mean(b.y))
        / tf.stop_gradient(tf.math.reduce_std(b.y) + 0.5)
    ),
    "sampled negatives": lambda b: _sampled(b, b.s.feed("negatives")),
    "drawn negatives": lambda b: _sampled(
        b,
        tf.random.stateless_uniform(
            [4], tf.stack([tf.cast(b.s.step, tf.int32), 3]), 1, TOKENS, tf.int32
        ),
    ),
    "dice": lambda b: (
        1.0
        - (2.0 * total(tf.sigmoid(b.out) * b.mask) + 1.0)
        / (total(tf.sigmoid(b.out)) + total(b.mask) + 1.0)
    ),
    "entropy of the mean": lambda b: (
        mean(b.entropies)
        + 0.1 * total(mean(tf.nn.softmax(b.h), 0) * tf.math.log(mean(tf.nn.softmax(b.h), 0) + 1e-3))
    ),
}


TABLES: dict[str, Loss] = {
    "tied weights": lambda b: mean(
        tf1.nn.sparse_softmax_cross_entropy_with_logits(
            labels=b.s.feed("ids")[:, 0],
            logits=tf.matmul(
                b.h + 0.1 * mean(tf.gather(_table(b), b.s.feed("ids")), 1),
                _table(b),
                transpose_b=True,
            ),
        )
    ),
    "norms of a table clipped": lambda b: (
        mean(b.errors)
        + mean(square(tf.nn.embedding_lookup(_table(b), b.s.feed("ids"), max_norm=0.9)))
    ),
    "given candidates": lambda b: mean(
        tf1.nn.sampled_softmax_loss(
            _table(b),
            tf.zeros([TOKENS], tf.float64),
            tf.cast(b.s.feed("ids")[:, :1], tf.int64),
            b.h,
            4,
            TOKENS,
            sampled_values=_candidates(b),
        )
    ),
    "noise contrast": lambda b: mean(
        tf1.nn.nce_loss(
            _table(b),
            tf.zeros([TOKENS], tf.float64),
            tf.cast(b.s.feed("ids")[:, :1], tf.int64),
            b.h,
            4,
            TOKENS,
            sampled_values=_candidates(b),
        )
    ),
    "table of factors": lambda b: (
        mean(square(tf.reduce_sum(tf.gather(_table(b), b.c) * b.h, 1) - b.y))
        + 0.01 * tf.nn.l2_loss(tf.gather(_table(b), b.c)) / b.real_rows
    ),
}


def _table(b):
    """Returns the table, the same in all parts of a loss."""
    weights = b.s.weights
    return weights["outputs"] if "outputs" in weights else b.s.weight("outputs", TOKENS, UNITS)


def _candidates(b):
    """Returns sampled classes and how often each is expected, in TensorFlow's form."""
    ids = tf.cast(b.s.feed("negatives"), tf.int64)
    return (
        ids,
        tf.fill(tf.stack([b.s.rows, 1]), tf.constant(0.3, tf.float64)),
        (tf.fill([4], tf.constant(0.4, tf.float64))),
    )


def _sampled(b, negatives):
    """Skip-gram with negatives that all rows share."""
    table = b.s.weight("outputs", TOKENS, UNITS)
    right = tf.nn.embedding_lookup(table, b.s.feed("ids")[:, 0])
    wrong = tf.nn.embedding_lookup(table, negatives)
    good = tf.math.softplus(-tf.reduce_sum(b.h * right, 1))
    bad = tf.math.softplus(tf.matmul(b.h, wrong, transpose_b=True))
    return mean(good) + mean(tf.reduce_sum(bad, 1))


EXTREMES: dict[str, Loss] = {
    "floor": lambda b: tf.maximum(mean(b.errors), 0.4),
    "flooding": lambda b: tf.abs(mean(b.errors) - 0.4) + 0.4,
    "clipped mean": lambda b: tf.clip_by_value(mean(b.errors), 0.1, 1.5),
    "largest": lambda b: 0.1 * tf.reduce_max(b.errors) + mean(b.errors),
    "softened largest": lambda b: tf.reduce_logsumexp(b.errors),
    "free bits": lambda b: mean(b.errors) + total(tf.maximum(mean(square(b.h), 0), 0.3)),
    "harder than the mean": lambda b: total(
        b.errors * tf.cast(tf.stop_gradient(b.errors) >= mean(b.errors), tf.float64)
    ),
    "all right": lambda b: (
        mean(b.errors) * (1.0 + tf.cast(tf.reduce_all(b.errors < 2.0), tf.float64))
    ),
}

FURTHER: dict[str, Loss] = {
    "fed class weights": lambda b: mean(b.errors * tf.gather(b.s.feed("class_weights"), b.c)),
    "fed anchors": lambda b: (
        mean(b.errors) + mean(square(tf.matmul(b.h, b.s.feed("anchors"), transpose_b=True)))
    ),
    "after an inner step": lambda b: _after_inner_step(b),
    "gradient of the mean": lambda b: (
        mean(b.errors) + total(square(tf.gradients(mean(b.errors), b.s.weights["last"])[0]))
    ),
    "teacher": lambda b: _by_teacher(b),
    "two heads": lambda b: (
        mean(b.errors) + 0.5 * total(b.entropies * b.mask) / tf.maximum(total(b.mask), 1.0)
    ),
    "learned weights": lambda b: _by_learned_variance(b),
    "root on a flag": lambda b: tf1.cond(
        b.s.feed("often"), lambda: tf.sqrt(mean(b.errors) + 0.1), lambda: mean(b.errors)
    ),
    "sum or mean": lambda b: tf1.cond(
        b.s.feed("flag"), lambda: 0.1 * total(b.errors), lambda: mean(b.errors)
    ),
    "masked on a flag": lambda b: tf1.cond(
        b.s.feed("often"),
        lambda: total(b.errors * b.mask) / tf.maximum(total(b.mask), 1.0),
        lambda: mean(b.errors * b.weights),
    ),
    "conditional in a conditional": lambda b: _nested(b),
    "largest of means": lambda b: tf.maximum(mean(b.errors), mean(tf.abs(b.out)) + 0.2),
    "by columns": lambda b: total(tf.norm(b.h, axis=0)) * 0.1 + mean(b.errors),
    "correlation": lambda b: (
        mean(b.errors)
        - mean((b.out - mean(b.out)) * (b.y - mean(b.y)))
        / tf.sqrt(tf.math.reduce_variance(b.out) + 0.3)
    ),
    "rows of a class": lambda b: mean(
        tf.stack(
            [tf.reduce_sum(tf.boolean_mask(b.errors, tf.equal(b.c, k))) for k in range(CLASSES)]
        )
    ),
    "means of classes": lambda b: total(
        tf.stack(
            [
                tf.math.divide_no_nan(
                    total(tf.boolean_mask(b.errors, tf.equal(b.c, k))),
                    total(tf.cast(tf.equal(b.c, k), tf.float64)),
                )
                for k in range(CLASSES)
            ]
        )
    ),
    "lengths": lambda b: (
        total(b.errors * tf.cast(b.s.feed("lengths"), tf.float64))
        / tf.cast(tf.maximum(total(b.s.feed("lengths")), 1), tf.float64)
    ),
}


def _after_inner_step(b):
    """Returns the error after a step of gradient descent on the last weights (meta-learning)."""
    last = b.s.weights["last"]
    (slope,) = tf.gradients(mean(b.errors), last)
    moved = tf.linalg.matvec(b.h, last - 0.1 * slope)
    return mean(b.errors) + mean(square(moved - b.y))


def _nested(b):
    """Returns a loss by a flag, and by whether the mean error is small."""

    def inner():
        error = mean(b.errors)
        small = lambda: tf.square(error) + mean(tf.abs(b.out))  # noqa: E731
        return tf1.cond(error < 0.5, small, lambda: tf.sqrt(error))

    return tf1.cond(b.s.feed("often"), inner, lambda: mean(b.errors))


def _by_learned_variance(b):
    # The gradient takes this read, so that it comes before the update.
    log_variance = tf.identity(b.s.weight("log_variance"))
    return mean(b.errors) * tf.exp(-log_variance) + log_variance


def _by_teacher(b):
    """Returns the error, and the distance to activations by a slow copy of the first weights."""
    # The gradient of the last term takes this read, so that it comes before the update.
    first = tf.identity(b.s.weights["first"])
    slow = b.s.state("teacher", [[0.1] * UNITS] * 3)
    old = slow + 0.0
    b.s.after.append(tf1.assign(slow, 0.9 * old + 0.1 * tf.stop_gradient(first)))
    taught = tf.stop_gradient(tf.tanh(tf.matmul(b.s.feed("x"), old)))
    return mean(b.errors) + mean(square(b.h - taught)) + 1e-4 * total(square(first))


MIXING: dict[str, Loss] = {
    "contrastive": lambda b: mean(
        tf1.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.range(b.s.rows), logits=tf.matmul(b.h, b.h, transpose_b=True)
        )
    ),
    "distances": lambda b: (
        mean(b.errors) - 0.1 * mean(tf.exp(-tf.reduce_sum(square(b.h[:, None] - b.h[None]), -1)))
    ),
    "same class": lambda b: (
        mean(
            tf.matmul(b.h, b.h, transpose_b=True)
            * tf.cast(tf.equal(b.c[:, None], b.c[None]), tf.float64)
        )
        + mean(b.errors)
    ),
    "centres of classes": lambda b: (
        mean(square(b.h - tf.gather(tf.math.unsorted_segment_mean(b.h, b.c, CLASSES), b.c)))
        + mean(b.errors)
    ),
    "neighbours": lambda b: mean(b.errors) + 0.1 * total(square(b.h[1:] - b.h[:-1])),
    "hardest": lambda b: mean(tf.nn.top_k(b.errors, 1 + b.s.rows // 2).values),
    "first row": lambda b: mean(b.errors) + mean(b.h * b.h[:1]),
    "ranks": lambda b: mean(tf.sort(b.errors)[: 1 + b.s.rows // 2]),
    "gradient penalty": lambda b: (
        mean(b.errors)
        + 0.1 * mean(square(tf.norm(tf.gradients(b.out, b.h)[0] + 0.01, axis=1) - 1.0))
    ),
}

LOSSES = {**MEANS, **CLASSIFIERS, **TABLES, **EXTREMES, **FURTHER, **MIXING}
# These losses do not use predictions, which are trained separately. A fetch of predictions might
# otherwise come before or after the update.
WITHOUT_PREDICTIONS = {*CLASSIFIERS, *TABLES, "contrastive"} - {"dice"}


def loss_of(name: str, batch: Batch) -> Any:
    """Returns the loss of that name, in float64."""
    loss = tf.cast(LOSSES[name](batch), tf.float64)
    return loss + 0.1 * mean(batch.errors) if name in WITHOUT_PREDICTIONS else loss


# ------------------------------------------ terms, most of which have an effect only later

TERMS: dict[str, Loss] = {
    "none": lambda b: 0.0,
    "squared mean, fed ramp": lambda b: b.s.feed("ramp") * square(mean(b.out)),
    "squared mean by the step": lambda b: (
        tf.clip_by_value((b.s.real_step - 50.0) / 50.0, 0.0, 1.0) * square(mean(b.out))
    ),
    "squared mean in cond": lambda b: tf1.cond(
        b.s.feed("flag"), lambda: square(mean(b.out)), lambda: tf.constant(0.0, tf.float64)
    ),
    "a sum in cond": lambda b: tf1.cond(
        b.s.step > 70, lambda: 0.05 * total(b.errors), lambda: tf.constant(0.0, tf.float64)
    ),
    "above a threshold": lambda b: tf1.cond(
        mean(b.errors) > 0.6, lambda: mean(square(b.out)), lambda: tf.constant(0.0, tf.float64)
    ),
    "rare rows": lambda b: mean(tf.nn.relu(tf.reduce_max(b.s.feed("x"), 1) - 2.5) * b.out),
    "penalty of weights": lambda b: (
        0.01 * tf.add_n([tf.nn.l2_loss(w) for w in b.s.weights.values()])
    ),
    "penalty, ramp": lambda b: (
        0.02 * b.s.feed("ramp") * tf.add_n([tf.nn.l2_loss(w) for w in b.s.weights.values()])
    ),
    "penalty of activations": lambda b: 0.01 * tf.nn.l2_loss(b.h),
    "variance": lambda b: 0.1 * mean(tf.math.reduce_variance(b.h, 0)),
}
