"""Metrics and state beside a training step; each returns an update and a value to fetch."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.oracle.grammar.feeds import CLASSES, COLUMNS, TOKENS, UNITS
from tests.oracle.grammar.losses import Batch

tf1 = tf.compat.v1
mean, total = tf.reduce_mean, tf.reduce_sum


def _after(update: Any, value: Any) -> tuple[Any, Any]:
    """The update, and a value that is computed after it."""
    with tf.control_dependencies([update]):
        return update, value()


def _kept(variable: Any, update: Any) -> tuple[Any, Any]:
    return _after(update, lambda: tf.identity(variable))


def steps(b: Batch, loss: Any):
    count = b.s.state("runs", np.int64(0))
    return _kept(count, tf1.assign_add(count, 1))


def rows_seen(b: Batch, loss: Any):
    count = b.s.state("rows_seen", np.int32(0))
    return _kept(count, tf1.assign_add(count, b.s.rows))


def hits(b: Batch, loss: Any):
    """A streaming number of rows that are right."""
    right = tf.equal(tf.argmax(b.apart, 1, tf.int32), b.c)
    count = b.s.state("hits", 0.0)
    return _kept(count, tf1.assign_add(count, total(tf.cast(right, tf.float64))))


def accuracy(b: Batch, loss: Any):
    """A streaming share: right ones by all."""
    right = tf.cast(b.out * b.y > 0, tf.int64)
    hit, seen = b.s.state("right", np.int64(0)), b.s.state("all", np.int64(0))
    both = tf.group(
        tf1.assign_add(hit, total(right)), tf1.assign_add(seen, tf.size(right, tf.int64))
    )
    return _after(both, lambda: tf.cast(hit, tf.float64) / tf.cast(seen, tf.float64))


def mean_loss(b: Batch, loss: Any):
    """A streaming mean of batches' losses."""
    sums, count = b.s.state("loss_sum", 0.0), b.s.state("loss_count", 0.0)
    both = tf.group(tf1.assign_add(sums, loss), tf1.assign_add(count, 1.0))
    return _after(both, lambda: sums / tf.maximum(count, 1.0))


def masked_mean(b: Batch, loss: Any):
    """A streaming mean of masked rows."""
    sums, count = b.s.state("masked_sum", 0.0), b.s.state("masked_count", 0.0)
    both = tf.group(
        tf1.assign_add(sums, total(b.errors * b.mask)), tf1.assign_add(count, total(b.mask))
    )
    return _after(both, lambda: tf.math.divide_no_nan(tf.identity(sums), tf.identity(count)))


def moving_loss(b: Batch, loss: Any):
    moving = b.s.state("moving_loss", 0.0)
    return _kept(moving, tf1.assign(moving, 0.9 * moving + 0.1 * loss))


def moving_root(b: Batch, loss: Any):
    moving = b.s.state("moving_root", 1.0)
    root = tf.sqrt(mean(b.errors) + 0.01)
    return _kept(moving, tf1.assign_sub(moving, 0.1 * (moving - root)))


def averaged_loss(b: Batch, loss: Any):
    """tf.train.ExponentialMovingAverage of the loss."""
    average = tf1.train.ExponentialMovingAverage(0.9)
    value = tf.identity(loss)
    update = average.apply([value])
    return _after(update, lambda: tf.identity(average.average(value)))


def largest(b: Batch, loss: Any):
    top = b.s.state("largest", 0.0)
    return _kept(top, tf1.assign(top, tf.maximum(top, tf.reduce_max(b.errors))))


def smallest_loss(b: Batch, loss: Any):
    best = b.s.state("best_loss", 1e9)
    return _kept(best, tf1.assign(best, tf.minimum(best, loss)))


def best_in_cond(b: Batch, loss: Any):
    """The best loss and its step, kept in a conditional."""
    best, when = b.s.state("best", 1e9), b.s.state("best_when", np.int64(0))
    count = b.s.state("best_runs", np.int64(0))
    counted = tf1.assign_add(count, 1)
    with tf.control_dependencies([counted]):
        update = tf1.cond(
            loss < best,
            lambda: tf.group(tf1.assign(best, loss), tf1.assign(when, tf.identity(count))),
            lambda: tf.no_op(),
        )
    return _kept(when, update)


def largest_on_a_flag(b: Batch, loss: Any):
    """The largest error of some batches, in a conditional."""
    top = b.s.state("largest_on_a_flag", 0.0)
    largest_error = lambda: tf1.assign(top, tf.maximum(top, tf.reduce_max(b.errors)))  # noqa: E731
    update = tf1.cond(b.s.feed("often"), largest_error, lambda: tf.identity(top))
    return _kept(top, update)


def confusion(b: Batch, loss: Any):
    matrix = b.s.state("confusion", np.zeros((CLASSES, CLASSES), np.int32))
    guessed = tf.argmax(b.apart[:, :CLASSES], 1, tf.int32)
    return _kept(matrix, tf1.assign_add(matrix, tf.math.confusion_matrix(b.c, guessed, CLASSES)))


def histogram(b: Batch, loss: Any):
    bins = b.s.state("bins", np.zeros(TOKENS))
    ones = tf.ones_like(b.s.feed("ids"), tf.float64)
    return _kept(bins, tf1.scatter_add(bins, b.s.feed("ids"), ones))


def tokens_seen(b: Batch, loss: Any):
    seen = b.s.state("seen", np.zeros(TOKENS, np.int32))
    ones = tf.ones_like(b.s.feed("ids"))
    return _kept(seen, tf1.scatter_update(seen, b.s.feed("ids"), ones))


def last_batch(b: Batch, loss: Any):
    last = b.s.state("last_batch", np.zeros(COLUMNS))
    return _kept(last, tf1.assign(last, mean(b.s.feed("x"), 0)))


def running_moments(b: Batch, loss: Any):
    """Welford's mean and squares, batch by batch."""
    x = b.s.feed("x")
    count, middle, squares = (b.s.state(n, v) for n, v in _moments_at_first())
    n = tf.cast(tf.shape(x)[0], tf.float64)
    all_rows = tf.identity(count) + n
    new = middle + (mean(x, 0) - middle) * n / all_rows
    more = total((x - middle) * (x - new), 0)
    values = [tf.identity(v) for v in (all_rows, new, squares + more)]
    with tf.control_dependencies(values):
        writes = [tf1.assign(v, a) for v, a in zip((count, middle, squares), values)]
    update = tf.group(*writes)
    return _after(update, lambda: squares / count)


def _moments_at_first():
    return ("count", 1e-4), ("middle", np.zeros(COLUMNS)), ("squares", np.ones(COLUMNS))


def rare_events(b: Batch, loss: Any):
    """Counts batches with a rare row, in a conditional."""
    count = b.s.state("rare", np.int32(0))
    rare = tf.reduce_any(b.s.feed("x") > 4.0)
    update = tf1.cond(
        rare, lambda: tf.identity(tf1.assign_add(count, 1)), lambda: tf.identity(count)
    )
    return _kept(count, update)


def rare_rows(b: Batch, loss: Any):
    """The number of rare rows, none of them for long."""
    count = b.s.state("rare_rows", 0.0)
    rare = tf.cast(tf.reduce_max(b.s.feed("x"), 1) > 3.0, tf.float64)
    return _kept(count, tf1.assign_add(count, total(rare)))


def recent_losses(b: Batch, loss: Any):
    """The last five losses, in turn."""
    turn, recent = b.s.state("turn", np.int32(0)), b.s.state("recent", np.zeros(5))
    now = turn + 0
    with tf.control_dependencies([now]):
        counted = tf1.assign(turn, (now + 1) % 5)
    update = tf.group(tf1.scatter_update(recent, now, loss), counted)
    return _kept(recent, update)


def centres(b: Batch, loss: Any):
    """Centres of classes, that their rows pull."""
    kept = b.s.state("centres", np.zeros((CLASSES, UNITS)))
    change = 0.1 * (tf.gather(kept, b.c) - b.h)
    return _kept(kept, tf1.scatter_sub(kept, b.c, change))


def prototypes(b: Batch, loss: Any):
    """Moving means of classes: sums by class, by their numbers of rows."""
    kept = b.s.state("prototypes", np.zeros((CLASSES, UNITS)))
    hot = tf.one_hot(b.c, CLASSES, dtype=tf.float64)
    sums, counts = tf.matmul(hot, b.h, transpose_a=True), total(hot, 0)[:, None]
    new = tf.math.divide_no_nan(sums, counts)
    seen = tf.cast(counts > 0, tf.float64)
    return _kept(kept, tf1.assign(kept, kept + 0.2 * seen * (new - kept)))


def plateau(b: Batch, loss: Any):
    """A rate that falls while the loss does not (reduce on plateau)."""
    best, wait, rate = (
        b.s.state("plateau", 1e9),
        b.s.state("wait", np.int32(0)),
        b.s.state("lr", 0.1),
    )
    better = loss < best - 1e-3
    waited = tf1.where(better, tf.zeros_like(wait + 0), wait + 1)
    late = waited >= 5
    values = [
        tf1.where(better, tf.identity(loss), tf.identity(best)),
        tf1.where(late, tf.zeros_like(waited), waited),
        tf1.where(late, 0.5 * rate, tf.identity(rate)),
    ]
    with tf.control_dependencies(values):
        update = tf.group(*(tf1.assign(v, a) for v, a in zip((best, wait, rate), values)))
    return _kept(rate, update)


def seen_by_token(b: Batch, loss: Any):
    """A moving mean of errors for each token."""
    kept = b.s.state("by_token", np.zeros(TOKENS))
    first = b.s.feed("ids")[:, 0]
    return _kept(kept, tf1.scatter_add(kept, first, 0.1 * b.errors))


def largest_by_class(b: Batch, loss: Any):
    kept = b.s.state("by_class", np.full(CLASSES, -1e3))
    return _kept(kept, tf1.scatter_max(kept, b.c, b.out))


def queue_of_rows(b: Batch, loss: Any):
    """The last rows, first in first out, in a variable."""
    kept = b.s.state("queue", np.zeros((4, UNITS)))
    new = tf.concat([tf.identity(kept), b.h], 0)[-4:]
    return _kept(kept, tf1.assign(kept, new))


def quantile(b: Batch, loss: Any):
    """A quantile of errors, followed by steps."""
    kept = b.s.state("quantile", 0.5)
    above = mean(tf.cast(b.errors > tf.identity(kept), tf.float64))
    return _kept(kept, tf1.assign_add(kept, 0.05 * (above - 0.2)))


def share_above(b: Batch, loss: Any):
    """The share of rows above a moving mean, and that mean."""
    moving, share = b.s.state("level", 0.2), b.s.state("share", 0.0)
    above = mean(tf.cast(b.errors > tf.identity(moving), tf.float64))
    level = 0.9 * moving + 0.1 * mean(b.errors)
    with tf.control_dependencies([above, level]):
        update = tf.group(tf1.assign(share, above), tf1.assign(moving, level))
    return _kept(share, update)


def cosine(b: Batch, loss: Any):
    """Streaming sums of a correlation."""
    names = ("xy", "xx", "yy")
    sums = [total(b.out * b.y), total(tf.square(b.out)), total(tf.square(b.y))]
    kept = [b.s.state(name, 1e-3) for name in names]
    update = tf.group(*(tf1.assign_add(v, a) for v, a in zip(kept, sums)))
    return _after(update, lambda: kept[0] / tf.sqrt(kept[1] * kept[2]))


def in_top(b: Batch, loss: Any):
    right = tf.nn.in_top_k(b.c, tf.cast(b.apart, tf.float32), 2)
    kept = b.s.state("in_top", np.int64(0))
    return _kept(kept, tf1.assign_add(kept, total(tf.cast(right, tf.int64))))


def metrics_mean(b: Batch, loss: Any):
    value, update = tf1.metrics.mean(b.errors)
    return update, update


def metrics_accuracy(b: Batch, loss: Any):
    value, update = tf1.metrics.accuracy(b.c, tf.argmax(b.apart, 1, tf.int32), b.mask)
    return update, update


def metrics_precision(b: Batch, loss: Any):
    value, update = tf1.metrics.precision(b.c > 0, b.out > 0)
    return update, update


def metrics_auc(b: Batch, loss: Any):
    value, update = tf1.metrics.auc(b.c > 0, tf.sigmoid(b.out), num_thresholds=8)
    return update, update


def metrics_iou(b: Batch, loss: Any):
    guessed = tf.argmax(b.apart[:, :CLASSES], 1, tf.int32)
    value, update = tf1.metrics.mean_iou(b.c, guessed, CLASSES)
    return update, _after(update, lambda: tf.identity(update))[1]


STATES = {
    "steps": steps,
    "rows seen": rows_seen,
    "hits": hits,
    "accuracy": accuracy,
    "mean loss": mean_loss,
    "masked mean": masked_mean,
    "moving loss": moving_loss,
    "moving root": moving_root,
    "averaged loss": averaged_loss,
    "largest": largest,
    "smallest loss": smallest_loss,
    "best in cond": best_in_cond,
    "largest on a flag": largest_on_a_flag,
    "confusion": confusion,
    "histogram": histogram,
    "tokens seen": tokens_seen,
    "last batch": last_batch,
    "running moments": running_moments,
    "rare events": rare_events,
    "rare rows": rare_rows,
    "recent losses": recent_losses,
    "centres": centres,
    "prototypes": prototypes,
    "plateau": plateau,
    "seen by token": seen_by_token,
    "largest by class": largest_by_class,
    "queue of rows": queue_of_rows,
    "quantile": quantile,
    "share above": share_above,
    "cosine": cosine,
    "in top": in_top,
    "metrics.mean": metrics_mean,
    "metrics.accuracy": metrics_accuracy,
    "metrics.precision": metrics_precision,
    "metrics.auc": metrics_auc,
    "metrics.mean_iou": metrics_iou,
}
