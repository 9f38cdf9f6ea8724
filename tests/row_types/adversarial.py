"""Small losses that mix rows, or nearly do, each with its step of gradient descent.

Each is either typed as unknown or exact: `verify` decides. Some are common programs, some are near
misses of the rules, and some gave silent errors in other systems.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tests.row_types.runs import LearningRun

tf1 = tf.compat.v1
ROWS, UNITS, CLASSES = 12, 4, 3


@dataclasses.dataclass
class Batch:
    """The inputs of a loss.

    Attributes:
      h: activations, [rows, 4]; y: targets, [rows]; c: classes below 3, [rows].
      image: [rows, 4, 4, 1]; ids: places in `table`, [rows, 2]; flag, rate: fed scalars.
    """

    h: Any
    y: Any
    c: Any
    image: Any
    ids: Any
    table: Any
    flag: Any
    rate: Any

    @property
    def n(self) -> Any:
        return tf.shape(self.h)[0]

    @property
    def real_n(self) -> Any:
        return tf.cast(self.n, tf.float32)

    @property
    def errors(self) -> Any:
        """Returns the errors of each row."""
        return tf.square(tf.reduce_sum(self.h, 1) - self.y)

    @property
    def mask(self) -> Any:
        return tf.cast(self.c > 0, tf.float32)


mean, total, square = tf.reduce_mean, tf.reduce_sum, tf.square
Loss = Callable[[Batch], Any]

MEANS: dict[str, Loss] = {
    "a mean": lambda b: mean(b.errors),
    "a sum": lambda b: total(b.errors),
    "a mean and a sum": lambda b: mean(b.errors) + 0.1 * total(square(b.h)),
    "a sum by a fixed number": lambda b: total(b.errors) / 12.0,
    "a sum by the number of rows": lambda b: total(b.errors) / b.real_n,
    "a sum by its square": lambda b: total(b.errors) / square(b.real_n),
    "a sum by its root": lambda b: total(b.errors) / tf.sqrt(b.real_n),
    "a sum by one less": lambda b: total(b.errors) / (b.real_n - 1.0),
    "a sum by one less, as integers": lambda b: total(b.errors) / tf.cast(b.n - 1, tf.float32),
    "a sum by half of it": lambda b: total(b.errors) / tf.cast(b.n // 2, tf.float32),
    "a sum times the size": lambda b: total(b.h) * tf.cast(tf.size(b.h), tf.float32) * 1e-3,
    "a weight by the number of rows": lambda b: mean(b.errors) * tf.math.log(b.real_n),
    "a scalar added to a mean": lambda b: square(mean(b.errors) + 3.0),
    "a scalar added to a sum": lambda b: total(b.errors) + 3.0,
    "ramp": lambda b: mean(b.errors) + b.rate * square(mean(b.h)),
    "flooding": lambda b: tf.abs(mean(b.errors) - 0.3) + 0.3,
    "a floor": lambda b: tf.maximum(mean(b.errors), 0.7),
    "a ceiling of a sum": lambda b: tf.minimum(total(b.errors), 7.0),
    "clipped mean": lambda b: tf.clip_by_value(mean(b.h), -0.1, 0.1) + mean(b.errors),
    "root of the mean": lambda b: tf.sqrt(mean(b.errors)),
    "logarithm of the mean": lambda b: tf.math.log(mean(b.errors) + 1.0),
    "product of means": lambda b: mean(b.errors) * mean(square(b.h)),
    "ratio of means": lambda b: mean(b.errors) / (mean(square(b.h)) + 0.1),
    "mean by a stopped mean": lambda b: mean(b.errors / tf.stop_gradient(mean(b.errors))),
    "mean by a stopped sum": lambda b: mean(b.errors) / tf.stop_gradient(total(b.errors)),
    "mean of exponentials": lambda b: tf.math.log(mean(tf.exp(b.h))),
    "mean less mean": lambda b: square(mean(b.h) - mean(b.y)),
    "harmonic": lambda b: 1.0 / mean(1.0 / (1.0 + b.errors)),
    "mean of no rows": lambda b: mean(square(tf.ones([5, 2]) * mean(b.h, 0)[:2])),
}

MOMENTS: dict[str, Loss] = {
    "variance": lambda b: mean(tf.math.reduce_variance(b.h, 0)),
    "deviation": lambda b: mean(tf.math.reduce_std(b.h + b.y[:, None], 0)),
    "centred": lambda b: mean(square(b.h - mean(b.h, 0)) * b.y[:, None]),
    "centred by all": lambda b: mean(tf.abs(b.h - mean(b.h))),
    "whitened": lambda b: mean(
        square((b.h - mean(b.h, 0)) / tf.math.reduce_std(b.h, 0) + b.y[:, None])
    ),
    "normalised by hand": lambda b: mean(
        tf.nn.batch_normalization(b.h, *tf.nn.moments(b.h, [0]), None, None, 1e-2) * b.y[:, None]
    ),
    "moments of axes": lambda b: (
        mean(
            tf.nn.batch_normalization(b.image, *tf.nn.moments(b.image, [0, 1, 2]), None, None, 1e-2)
        )
        * mean(b.h)
    ),
    "fused": lambda b: mean(
        square(
            tf1.nn.fused_batch_norm(b.h[:, None, None], tf.ones([4]), tf.zeros([4]))[0]
            + b.y[:, None, None, None]
        )
    ),
    "layer norm": lambda b: mean(
        tf.nn.batch_normalization(b.h, *tf.nn.moments(b.h, [1], keepdims=True), None, None, 1e-2)
        * b.y[:, None]
    ),
    "covariance": lambda b: total(
        square(tf.matmul(b.h - mean(b.h, 0), b.h - mean(b.h, 0), transpose_a=True) / b.real_n)
    ),
    "covariance, unbiased": lambda b: total(
        square(tf.matmul(b.h, b.h, transpose_a=True) / (b.real_n - 1.0))
    ),
    "correlation": lambda b: (
        mean((b.h[:, 0] - mean(b.h[:, 0])) * (b.y - mean(b.y)))
        / tf.sqrt(tf.math.reduce_variance(b.h[:, 0]) * tf.math.reduce_variance(b.y) + 1e-3)
    ),
    "moment matching": lambda b: total(square(mean(b.h, 0) - mean(b.h * b.y[:, None], 0))),
    "norm of all": lambda b: tf.norm(b.h),
    "norm of all, by sums": lambda b: tf.sqrt(total(square(b.h)) + 1.0),
    "normalised by the norm of all": lambda b: total(tf.nn.l2_normalize(b.h) * b.y[:, None]),
    "normalised rows": lambda b: mean(tf.nn.l2_normalize(b.h, 1) * b.y[:, None]),
    "clipped by the norm of all": lambda b: total(tf.clip_by_norm(b.h, 1.0) * b.y[:, None]),
    "clipped rows": lambda b: mean(tf.clip_by_norm(b.h, 0.5, axes=[1]) * b.y[:, None]),
    "half the squares": lambda b: tf.nn.l2_loss(b.h) / b.real_n,
    "r squared": lambda b: total(b.errors) / total(square(b.y - mean(b.y))),
}

EXTREMES: dict[str, Loss] = {
    "largest": lambda b: tf.reduce_max(b.errors),
    "largest less smallest": lambda b: tf.reduce_max(b.h) - tf.reduce_min(b.h),
    "largest of columns": lambda b: mean(tf.reduce_max(b.h, 0)),
    "largest of rows": lambda b: mean(tf.reduce_max(b.h, 1)),
    "rows by the largest": lambda b: mean(b.h / (tf.reduce_max(tf.abs(b.h)) + 0.1)),
    "clipped largest": lambda b: tf.clip_by_value(tf.reduce_max(b.errors), 0.1, 2.0),
    "largest of two largest": lambda b: tf.maximum(tf.reduce_max(b.errors), tf.reduce_max(-b.h)),
    "largest plus a scalar": lambda b: tf.reduce_max(b.errors) + 1.0,
    "largest times a scalar": lambda b: -2.0 * tf.reduce_max(b.errors),
    "logsumexp": lambda b: mean(tf.reduce_logsumexp(b.h, 0)),
    "logsumexp of rows": lambda b: mean(tf.reduce_logsumexp(b.h, 1)),
    "softmax over rows": lambda b: mean(tf.nn.softmax(b.h, 0) * b.y[:, None]),
    "softmax over rows, by hand": lambda b: total(b.errors * tf.exp(b.y) / total(tf.exp(b.y))),
    "softmax of rows": lambda b: mean(tf.nn.softmax(b.h) * b.y[:, None]),
    "product of rows": lambda b: tf.reduce_prod(1.0 + 0.1 * b.h),
    "all of them": lambda b: mean(b.errors) * tf.cast(tf.reduce_all(b.c > 0), tf.float32),
    "any of them": lambda b: mean(b.errors) * tf.cast(tf.reduce_any(b.c > 1), tf.float32),
    "a range of quantisation": lambda b: (
        mean(square(tf.round((b.h - tf.reduce_min(b.h)) / 0.1) * 0.1 - b.h)) + mean(b.errors)
    ),
}

MASKS: dict[str, Loss] = {
    "masked mean": lambda b: total(b.errors * b.mask) / total(b.mask),
    "masked, at least one": lambda b: total(b.errors * b.mask) / tf.maximum(total(b.mask), 1.0),
    "masked, without nan": lambda b: tf.math.divide_no_nan(total(b.errors * b.mask), total(b.mask)),
    "masked by a mean": lambda b: mean(b.errors * b.mask) / mean(b.mask),
    "rows by the share": lambda b: mean(b.errors * b.mask / (mean(b.mask) + 0.1)),
    "boolean mask": lambda b: mean(tf.boolean_mask(b.errors, b.c > 0)),
    "boolean mask, sum": lambda b: total(tf.boolean_mask(b.h, b.c > 0)),
    "boolean mask, square": lambda b: square(mean(tf.boolean_mask(b.errors, b.c > 0))),
    "boolean mask and mean": lambda b: mean(tf.boolean_mask(b.errors, b.c > 0)) + mean(b.errors),
    "boolean mask of elements": lambda b: total(tf.boolean_mask(b.h, b.h > 0)),
    "two masks": lambda b: (
        mean(tf.boolean_mask(b.errors, b.c > 0)) - mean(tf.boolean_mask(b.errors, b.c < 1))
    ),
    "masks of one another": lambda b: total(
        tf.boolean_mask(b.errors, b.c > 0) * tf.boolean_mask(b.y, b.c > 0)
    ),
    "masked against all": lambda b: total(tf.boolean_mask(b.errors, b.c > -1) * b.y),
    "where": lambda b: total(square(tf.gather_nd(b.h, tf.where(b.h > 0)))),
    "where, mean": lambda b: mean(tf.gather_nd(b.h, tf.where(b.h > 0))),
    "number of nonzeros": lambda b: (
        total(b.errors) / tf.cast(tf.math.count_nonzero(b.c), tf.float32)
    ),
    "number chosen": lambda b: mean(b.errors) * tf.cast(tf.shape(tf.where(b.c > 0))[0], tf.float32),
    "partition": lambda b: (
        total(square(tf.dynamic_partition(b.h, b.c, CLASSES)[1]))
        + mean(tf.dynamic_partition(b.h, b.c, CLASSES)[0])
    ),
    "partition and stitch": lambda b: mean(
        square(
            tf.dynamic_stitch(
                tf.dynamic_partition(tf.range(b.n), b.c, CLASSES),
                [
                    piece * (k + 1.0)
                    for k, piece in enumerate(tf.dynamic_partition(b.h, b.c, CLASSES))
                ],
            )
        )
        * b.y[:, None]
    ),
    "dice": lambda b: (
        1.0
        - (2.0 * total(tf.sigmoid(b.h[:, 0]) * b.mask) + 1.0)
        / (total(tf.sigmoid(b.h[:, 0])) + total(b.mask) + 1.0)
    ),
    "tversky": lambda b: (
        1.0
        - total(tf.sigmoid(b.h[:, 0]) * b.mask)
        / (
            total(tf.sigmoid(b.h[:, 0]) * b.mask)
            + 0.3 * total(tf.sigmoid(b.h[:, 0]) * (1.0 - b.mask))
            + 0.7 * total((1.0 - tf.sigmoid(b.h[:, 0])) * b.mask)
            + 1e-2
        )
    ),
    "classes by their number": lambda b: mean(
        b.errors
        / (1.0 + tf.gather(tf.math.unsorted_segment_sum(tf.ones_like(b.y), b.c, CLASSES), b.c))
    ),
    "centres of classes": lambda b: mean(
        square(b.h - tf.gather(tf.math.unsorted_segment_mean(b.h, b.c, CLASSES), b.c))
    ),
    "largest of classes": lambda b: mean(tf.math.unsorted_segment_max(b.h, b.c, CLASSES)),
    "sum of classes": lambda b: total(square(tf.math.unsorted_segment_sum(b.h, b.c, CLASSES))),
    "confusion": lambda b: (
        mean(b.errors) * mean(tf.cast(tf.math.confusion_matrix(b.c, b.c, CLASSES), tf.float32))
    ),
    "hard examples": lambda b: mean(tf.nn.top_k(b.errors, 3)[0]),
    "harder than the mean": lambda b: total(
        b.errors * tf.cast(tf.stop_gradient(b.errors) > mean(b.errors), tf.float32)
    ),
    "harder than a median": lambda b: mean(b.errors * tf.cast(b.y > tf.sort(b.y)[3], tf.float32)),
    "distinct classes": lambda b: mean(b.errors) * tf.cast(tf.size(tf.unique(b.c)[0]), tf.float32),
    "bincount": lambda b: mean(b.errors) * mean(tf.cast(tf.math.bincount(b.c), tf.float32)),
}

PLACES: dict[str, Loss] = {
    "place as a weight": lambda b: mean(b.errors * tf.cast(tf.range(b.n), tf.float32)),
    "place as a class": lambda b: mean(
        tf1.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.minimum(tf.range(b.n), 3), logits=b.h
        )
    ),
    "own column": lambda b: mean(tf.gather_nd(b.h, tf.stack([tf.range(b.n), b.c], 1))),
    "own column, flat": lambda b: mean(
        tf.gather(tf.reshape(b.h, [-1]), tf.range(b.n) * UNITS + b.c)
    ),
    "own column by batch": lambda b: mean(tf.gather(b.h, b.c, axis=1, batch_dims=1)),
    "a column of all": lambda b: mean(tf.gather(b.h, tf.constant([1, 3]), axis=1)),
    "rows by rows": lambda b: mean(tf.gather(b.h, b.c) * b.h),
    "rows by places": lambda b: mean(square(tf.gather(b.h, tf.range(b.n)))),
    "rows by places, one further": lambda b: mean(tf.gather(b.h, (tf.range(b.n) + 1) % b.n)),
    "a constant by places": lambda b: mean(
        b.errors * tf.gather(tf.constant(np.arange(40.0), tf.float32), tf.range(b.n))
    ),
    "a constant by places and classes": lambda b: mean(
        b.errors
        * tf.gather_nd(
            tf.constant(np.arange(120.0).reshape(40, 3), tf.float32),
            tf.stack([tf.range(b.n), b.c], 1),
        )
    ),
    "scattered by places": lambda b: mean(
        square(tf.scatter_nd(tf.range(b.n)[:, None], b.errors, [40]))
    ),
    "places by places": lambda b: mean(
        b.errors * tf.cast(tf.gather(tf.range(b.n), tf.range(b.n)), tf.float32)
    ),
    "parted by places": lambda b: total(
        square(tf.dynamic_partition(b.h, tf.minimum(tf.range(b.n), 1), 2)[0])
    ),
    "scattered to own rows": lambda b: mean(
        square(tf.scatter_nd(tf.stack([tf.range(b.n), b.c], 1), b.y, tf.stack([b.n, 4])) - b.h)
    ),
    "scattered to classes": lambda b: mean(
        square(tf.scatter_nd(b.c[:, None], b.errors, [CLASSES]))
    ),
    "neighbours": lambda b: mean(square(b.h[1:] - b.h[:-1])),
    "first row": lambda b: mean(b.h * b.h[:1]),
    "last row": lambda b: mean(square(b.h[-1])) + mean(b.errors),
    "all but two": lambda b: mean(b.h[:-2]),
    "every second": lambda b: mean(b.h[::2]),
    "halves": lambda b: mean(b.h[: b.n // 2] * b.h[b.n // 2 :]),
    "halves of columns": lambda b: mean(b.h[:, :2] * b.h[:, 2:]),
    "as many as rows": lambda b: mean(square(b.h[: b.n])),
    "as many of a constant": lambda b: mean(
        b.h * tf.constant(np.arange(80).reshape(20, 4), tf.float32)[: b.n]
    ),
    "as many of a constant, by slice": lambda b: mean(
        b.h * tf.slice(tf.constant(np.arange(80.0).reshape(20, 4), tf.float32), [0, 0], [b.n, 4])
    ),
    "a linear space": lambda b: mean(b.errors * tf.linspace(0.0, 1.0, b.n)),
    "reversed": lambda b: mean(tf.reverse(b.h, [0]) * b.h),
    "reversed columns": lambda b: mean(tf.reverse(b.h, [1]) * b.h),
    "rolled": lambda b: mean(tf.roll(b.h, 1, 0) * b.h),
    "sorted": lambda b: mean(tf.sort(b.h, axis=0)[0]),
    "sorted columns": lambda b: mean(tf.sort(b.h, axis=1)[:, 0] * b.y),
    "best row": lambda b: mean(tf.gather(b.h, tf.argmax(b.y))),
    "best column": lambda b: mean(tf.cast(tf.argmax(b.h, 1), tf.float32) * b.errors),
    "running sum": lambda b: mean(square(tf.cumsum(b.h, 0))),
    "running sum of columns": lambda b: mean(square(tf.cumsum(b.h, 1))),
    "shuffled": lambda b: mean(tf.random.shuffle(b.h) * b.h),
    "mixed up": lambda b: mean(square(0.7 * b.h + 0.3 * tf.reverse(b.h, [0]))),
    "a triangle": lambda b: mean(tf.linalg.band_part(b.h, -1, 0)),
    "a triangle of each row": lambda b: mean(
        tf.linalg.band_part(b.h[:, :, None] * b.h[:, None], -1, 0)
    ),
    "a diagonal of all": lambda b: mean(tf.linalg.diag_part(b.h)),
    "classes one hot": lambda b: mean(square(tf.one_hot(b.c, UNITS) - b.h)),
    "one hot by rows": lambda b: mean(tf.one_hot(b.c, b.n)) + mean(b.errors),
}

SHAPES: dict[str, Loss] = {
    "flat": lambda b: mean(square(tf.reshape(b.h, [-1]))),
    "columns in pairs": lambda b: mean(tf.reduce_prod(tf.reshape(b.h, [-1, 2, 2]), 1)),
    "rows in pairs": lambda b: mean(tf.reduce_prod(tf.reshape(b.h, [-1, 2, 4]), 1)),
    "rows in pairs, flat": lambda b: mean(square(total(tf.reshape(b.h, [-1, 8]), 1))),
    "two halves": lambda b: mean(square(total(tf.reshape(b.h, [2, -1]), 0))),
    "four of n": lambda b: mean(square(total(tf.reshape(b.h, [4, -1]), 0))),
    "n in front, asked for": lambda b: mean(
        square(tf.reduce_max(tf.reshape(b.h, tf.stack([b.n, 2, 2])), 2))
    ),
    "transposed": lambda b: mean(square(total(tf.transpose(b.h) * b.y, 0))),
    "transposed and mixed": lambda b: mean(
        square(total(tf.reshape(tf.transpose(b.h), [-1, 2]), 1))
    ),
    "transposed and flat": lambda b: mean(square(tf.reshape(tf.transpose(b.h), [-1]))),
    "transposed and flat, by y": lambda b: mean(
        square(tf.reshape(tf.transpose(b.h), [-1]) + tf.tile(b.y, [4]))
    ),
    "transposed and flat, by repeats": lambda b: mean(
        square(tf.reshape(tf.transpose(b.h), [-1]) + tf.repeat(b.y, 4))
    ),
    "transposed twice": lambda b: mean(
        square(tf.transpose(tf.reshape(tf.transpose(b.h), [2, 2, -1]), [2, 0, 1]))
        * b.y[:, None, None]
    ),
    "time in front": lambda b: (
        mean(
            square(
                tf.reshape(
                    tf.matmul(
                        tf.reshape(tf.transpose(b.image, [1, 0, 2, 3]), [-1, 4]), tf.ones([4, 2])
                    ),
                    [4, -1, 2],
                )
            )
        )
        + mean(b.errors)
    ),
    "repeated columns": lambda b: mean(square(tf.tile(b.h, [1, 2]) + 1.0)),
    "repeated rows": lambda b: mean(square(tf.tile(b.h, [2, 1])[: b.n] + b.h)),
    "each row twice": lambda b: mean(square(tf.repeat(b.h, 2, 0) + 1.0)),
    "once for each row": lambda b: mean(
        square(tf.tile(b.table[:1], tf.stack([b.n, 1])) + b.h[:, :2])
    ),
    "filled for each row": lambda b: mean(tf.fill(tf.stack([b.n, 4]), b.rate) * b.h),
    "padded": lambda b: mean(tf.pad(b.h, [[1, 1], [0, 0]])),
    "padded columns": lambda b: mean(square(tf.pad(b.h, [[0, 0], [1, 1]]) + 1.0)),
    "one below the other": lambda b: mean(
        square(tf.concat([b.h, -b.h], 0) + tf.concat([b.y, b.y], 0)[:, None])
    ),
    "one below the other, and apart": lambda b: mean(
        tf.split(tf.concat([b.h, b.h * 2], 0), 2)[1] * b.y[:, None]
    ),
    "one below the other, cut": lambda b: mean(tf.concat([b.h, b.h * 2], 0)[b.n :] * b.y[:, None]),
    "a constant below": lambda b: mean(square(tf.concat([b.h, tf.ones([2, 4])], 0))),
    "side by side": lambda b: mean(square(tf.concat([b.h, b.h * b.y[:, None]], 1))),
    "stacked": lambda b: mean(square(tf.reduce_max(tf.stack([b.h, b.h * b.y[:, None]]), 0))),
    "unstacked": lambda b: mean(square(tf.add_n(tf.unstack(b.h, axis=1)) - b.y)),
    "a stack of means": lambda b: total(square(tf.stack([mean(b.errors), total(b.h), b.rate]))),
    "gram": lambda b: mean(tf.matmul(b.h, b.h, transpose_b=True)),
    "gram of columns": lambda b: mean(square(tf.matmul(b.h, b.h, transpose_a=True))),
    "each with each": lambda b: mean(square(b.h[:, None] - b.h[None])),
    "a column against rows": lambda b: mean(square(b.h[:, :1] - b.y)),
    "mesh": lambda b: mean(square(tf.meshgrid(b.y, b.y)[0] - b.y)) * mean(b.h),
    "outer, summed": lambda b: mean(square(tf.einsum("b,bi->i", b.y, b.h))),
    "outer of columns": lambda b: total(square(tf.einsum("bi,bj->ij", b.h, b.h))),
    "outer of each row": lambda b: mean(square(tf.einsum("bi,bj->bij", b.h, b.h))),
    "outer of rows": lambda b: total(tf.einsum("bi,ci->bc", b.h, b.h)),
    "einsum with dots": lambda b: (
        mean(square(tf.einsum("b...i,ij->b...j", b.image[..., 0], tf.ones([4, 2]))))
        + mean(b.errors)
    ),
    "tensordot": lambda b: mean(square(tf.tensordot(b.y, b.h, 1))),
    "tensordot of all": lambda b: mean(square(tf.tensordot(b.h, b.h, [[0, 1], [0, 1]]))),
    "a unit matrix of n": lambda b: mean(tf.matmul(tf.eye(b.n), b.h)),
    "ones times rows": lambda b: mean(square(tf.matmul(tf.ones(tf.stack([1, b.n])), b.h))),
    "ones of n by n": lambda b: mean(tf.matmul(tf.ones(tf.stack([b.n, b.n])), square(b.h))),
    "n to a power": lambda b: mean(b.errors) * 0.9**b.real_n,
    "n as a bound": lambda b: mean(tf.clip_by_value(b.h * b.real_n, -5.0, 5.0)),
    "as long as the longest": lambda b: mean(b.h[:, : tf.reduce_max(b.c) + 1]),
    "a mask as long as the longest": lambda b: (
        total(tf.cast(tf.sequence_mask(b.c + 1), tf.float32)) * mean(b.h)
    ),
    "a mask of a fixed length": lambda b: mean(
        b.h * tf.cast(tf.sequence_mask(b.c + 1, 4), tf.float32)
    ),
    "squeezed": lambda b: mean(square(tf.squeeze(b.image[:, :1, :1]))) + mean(b.errors),
    "squeezed, summed": lambda b: mean(total(square(tf.squeeze(b.h[:, None])), 0)),
    "broadcast to rows": lambda b: mean(tf.broadcast_to(b.table[0, :1], tf.stack([b.n, 4])) * b.h),
}

PICTURES: dict[str, Loss] = {
    "convolution": lambda b: (
        mean(square(tf.nn.conv2d(b.image, tf.reshape(b.table[:4], [2, 2, 1, 2]), 1, "SAME")))
        + mean(b.errors)
    ),
    "pooled": lambda b: mean(tf1.nn.max_pool(b.image * mean(b.h), 2, 2, "VALID")),
    "padded picture": lambda b: mean(
        tf1.nn.avg_pool(tf.pad(b.image, [[0, 0], [1, 1], [1, 1], [0, 0]]), 3, 1, "VALID")
        * mean(b.h)
    ),
    "per channel": lambda b: mean(square(mean(b.image, [1, 2]) - b.h[:, :1])),
    "per pixel of all": lambda b: mean(square(mean(b.image, 0) - 0.5)) * mean(b.h),
    "total variation": lambda b: mean(tf.image.total_variation(b.image)) * mean(b.h),
    "batch to space": lambda b: mean(
        square(tf.batch_to_space(b.h[:, :, None, None], [2, 2], [[0, 0], [0, 0]]))
    ),
    "space to batch": lambda b: (
        mean(square(tf.space_to_batch(b.image, [2, 2], [[0, 0], [0, 0]]))) + mean(b.errors)
    ),
    "resized": lambda b: mean(square(tf1.image.resize_bilinear(b.image, [2, 2]))) + mean(b.errors),
    "standardised pictures": lambda b: (
        mean(square(tf.image.per_image_standardization(b.image))) + mean(b.errors)
    ),
}

EMBEDDED: dict[str, Loss] = {
    "looked up": lambda b: mean(square(tf.gather(b.table, b.ids))) + mean(b.errors),
    "looked up and averaged": lambda b: mean(
        square(mean(tf.nn.embedding_lookup(b.table, b.ids), 1) - b.h[:, :2])
    ),
    "looked up by a class": lambda b: mean(square(tf.gather(b.table, b.c) - b.h[:, :2])),
    "all of the table": lambda b: mean(b.errors) + tf.nn.l2_loss(b.table),
    "looked up against all": lambda b: (
        mean(
            tf1.nn.sparse_softmax_cross_entropy_with_logits(
                labels=b.c, logits=tf.matmul(tf.gather(b.table, b.c), b.table, transpose_b=True)
            )
        )
        + mean(b.errors)
    ),
    "norms clipped": lambda b: (
        mean(square(tf.nn.embedding_lookup(b.table, b.ids, max_norm=0.4))) + mean(b.errors)
    ),
    "sampled": lambda b: mean(
        tf1.nn.sampled_softmax_loss(b.table, tf.zeros([6]), b.c[:, None], b.h[:, :2], 3, 6, seed=1)
    ),
    "contrasted with noise": lambda b: mean(
        tf1.nn.nce_loss(
            b.table,
            tf.zeros([6]),
            tf.cast(b.c[:, None], tf.int64),
            b.h[:, :2],
            3,
            6,
            sampled_values=tf.random.log_uniform_candidate_sampler(
                tf.cast(b.c[:, None], tf.int64), 1, 3, True, 6, seed=1
            ),
        )
    ),
    "looked up distinct": lambda b: (
        mean(square(tf.gather(tf.gather(b.table, tf.unique(b.c)[0]), tf.unique(b.c)[1])))
        + mean(b.errors)
    ),
}

RANDOM: dict[str, Loss] = {
    "dropped out": lambda b: mean(square(tf.nn.dropout(b.h, 0.3, seed=1)) * b.y[:, None]),
    "noise on rows": lambda b: mean(square(b.h + tf.random.normal(tf.shape(b.h)))),
    "noise on columns": lambda b: mean(square(b.h + tf.random.normal([4]))),
    "noise on the loss": lambda b: mean(b.errors) * tf.random.uniform([], 0.5, 1.0),
    "noise on weights": lambda b: mean(
        square(tf.matmul(b.h[:, :2], b.table + tf.random.normal([6, 2]), transpose_b=True))
    ),
    "noise of pairs": lambda b: mean(
        tf.gather(b.h, tf.random.uniform([], 0, 3, tf.int32), axis=1) * b.y
    ),
    "dropped for all rows": lambda b: mean(
        square(tf1.nn.dropout(b.h, rate=0.3, noise_shape=tf.stack([1, 4]))) * b.y[:, None]
    ),
    "mixed by a draw": lambda b: mean(
        b.h * tf.random.uniform(tf.stack([b.n, 1])) + tf.random.uniform([1, 4])
    ),
    "drawn classes": lambda b: mean(
        tf.cast(tf.random.categorical(b.h, 1, seed=2)[:, 0], tf.float32) * b.errors
    ),
    "a class for all": lambda b: mean(
        b.errors * tf.cast(tf.random.categorical(b.table[:1], 1)[0, 0], tf.float32)
    ),
    "stateless": lambda b: mean(square(b.h + tf.random.stateless_normal([4], [1, 2]))),
    "stateless rows": lambda b: mean(
        square(b.h + tf.random.stateless_uniform(tf.shape(b.h), [1, 2]))
    ),
    "gamma": lambda b: mean(b.errors) * mean(tf.random.gamma([3], 2.0)),
}

GRADIENTS: dict[str, Loss] = {
    "penalty on each row": lambda b: mean(
        square(tf.norm(tf.gradients(b.errors, b.h)[0] + 0.01, axis=1) - 1.0)
    ),
    "penalty of a mean's gradient": lambda b: mean(
        square(tf.gradients(mean(b.errors), b.h)[0] * 10.0)
    ),
    "norm of a mean's gradient": lambda b: tf.norm(tf.gradients(mean(b.errors), b.h)[0]),
    "sign of a mean's gradient": lambda b: total(
        tf.stop_gradient(tf.sign(tf.gradients(mean(square(b.h)), b.h)[0])) * b.h
    ),
    "adversarial": lambda b: mean(
        square(b.h + 0.1 * tf.sign(tf.stop_gradient(tf.gradients(mean(b.errors), b.h)[0])))
    ),
    "adversarial, by the gradient": lambda b: mean(
        square(b.h + 0.1 * tf.stop_gradient(tf.gradients(mean(b.errors), b.h)[0]))
    ),
    "compared with a scalar": lambda b: total(
        tf.stop_gradient(tf.sign(tf.gradients(mean(square(b.h)), b.h)[0] - 0.01)) * b.h
    ),
}


def _loop(b: Batch, going: Any, step: Any, start: Any = None) -> Any:
    return tf1.while_loop(
        lambda i, h: going(i, h),
        lambda i, h: (i + 1, step(h)),
        [0, b.h if start is None else start],
    )[1]


FLOW: dict[str, Loss] = {
    "a fixed number of steps": lambda b: mean(
        _loop(b, lambda i, h: i < 3, lambda h: tf.tanh(h + b.y[:, None]))
    ),
    "until small on average": lambda b: mean(
        _loop(b, lambda i, h: mean(tf.abs(h)) > 0.2, lambda h: h * 0.5)
    ),
    "until all are small": lambda b: mean(
        _loop(b, lambda i, h: tf.reduce_any(tf.abs(h) > 0.2), lambda h: h * 0.5)
    ),
    "as often as rows": lambda b: mean(_loop(b, lambda i, h: i < b.n, lambda h: h * 0.9)),
    "normalised in a loop": lambda b: mean(
        square(_loop(b, lambda i, h: i < 2, lambda h: h - 0.5 * mean(h, 0)))
    ),
    "a sum in a loop": lambda b: _loop(
        b, lambda i, h: i < 3, lambda s: s + total(b.errors), tf.constant(0.0)
    ),
    "a mean in a loop": lambda b: _loop(
        b, lambda i, h: i < 3, lambda s: s * 0.5 + mean(b.errors), tf.constant(1.0)
    ),
    "if a flag": lambda b: tf1.cond(b.flag, lambda: mean(b.errors), lambda: mean(square(b.h))),
    "if a flag, squared": lambda b: tf1.cond(
        b.flag, lambda: square(mean(b.h)), lambda: mean(b.errors)
    ),
    "if a flag, sum or mean": lambda b: tf1.cond(
        b.flag, lambda: total(b.errors), lambda: mean(b.errors)
    ),
    "if a flag, rows": lambda b: mean(
        tf1.cond(b.flag, lambda: b.h * 2.0, lambda: b.h - mean(b.h, 0)) * b.y[:, None]
    ),
    "if a flag, constant": lambda b: (
        mean(b.errors) + tf1.cond(b.flag, lambda: tf.constant(0.0), lambda: mean(b.h))
    ),
    "if a mean": lambda b: tf1.cond(
        mean(b.y) > 0, lambda: mean(b.errors), lambda: mean(square(b.h))
    ),
    "if any": lambda b: tf1.cond(
        tf.reduce_any(b.y > 1.0), lambda: mean(b.errors), lambda: mean(square(b.h))
    ),
    "if many rows": lambda b: tf1.cond(b.n > 6, lambda: mean(b.errors), lambda: mean(square(b.h))),
    "one after the other": lambda b: mean(tf1.scan(lambda a, x: a * 0.5 + x, b.h)),
    "columns in turn": lambda b: mean(
        square(tf1.scan(lambda a, x: a * 0.5 + x, tf.transpose(b.h))[-1] - b.y)
    ),
    "columns in turn, all results": lambda b: mean(
        square(tf1.scan(lambda a, x: a * 0.5 + tf.tanh(x), tf.transpose(b.h)) - b.y)
    ),
    "each by itself": lambda b: mean(tf1.map_fn(lambda x: total(square(x)), b.h)),
    "each column by itself": lambda b: mean(
        tf1.map_fn(lambda x: square(x - b.y), tf.transpose(b.h))
    ),
    "folded": lambda b: mean(tf1.foldl(lambda a, x: a + x, b.h)),
    "folded columns": lambda b: mean(
        square(tf1.foldl(lambda a, x: a * 0.5 + x, tf.transpose(b.h)))
    ),
    "chosen by a flag": lambda b: mean(tf.where(b.flag, b.errors, tf.abs(b.y))),
    "chosen by rows": lambda b: mean(tf.where(b.c > 0, b.errors, tf.abs(b.y))),
    "chosen rows of two": lambda b: mean(tf1.where(b.c > 0, b.h, -b.h) * b.y[:, None]),
    "chosen by a mean": lambda b: tf.where(mean(b.y) > 0, mean(b.errors), total(b.h)),
}

LOSSES: dict[str, Loss] = (
    MEANS
    | MOMENTS
    | EXTREMES
    | MASKS
    | PLACES
    | SHAPES
    | PICTURES
    | EMBEDDED
    | RANDOM
    | GRADIENTS
    | FLOW
)


def _gradients(optimiser: Any, loss: Any) -> list[tuple[Any, Any]]:
    pairs = optimiser.compute_gradients(loss)
    return [(tf.convert_to_tensor(g), v) for g, v in pairs if g is not None]


def _clipped(optimiser: Any, loss: Any) -> Any:
    gradients, variables = zip(*_gradients(optimiser, loss))
    clipped, _ = tf.clip_by_global_norm(gradients, 0.5)
    return optimiser.apply_gradients(zip(clipped, variables))


def _noisy(optimiser: Any, loss: Any) -> Any:
    pairs = _gradients(optimiser, loss)
    return optimiser.apply_gradients([(g + tf.random.normal(v.shape), v) for g, v in pairs])


def _by_hand(optimiser: Any, loss: Any) -> Any:
    """Makes a step of RMSProp."""
    updates = []
    for gradient, variable in _gradients(optimiser, loss):
        slot = tf1.get_variable(f"{variable.op.name}_slot", variable.shape, trainable=False)
        squares = tf1.assign(slot, 0.9 * slot + 0.1 * square(gradient))
        step = 0.1 * gradient / tf.sqrt(tf.abs(squares) + 1e-3)
        updates.append(tf1.assign_sub(variable, step))
    return tf.group(*updates)


def _each_clipped(optimiser: Any, loss: Any) -> Any:
    pairs = _gradients(optimiser, loss)
    return optimiser.apply_gradients([(tf.clip_by_norm(g, 0.1), v) for g, v in pairs])


def _signs(optimiser: Any, loss: Any) -> Any:
    pairs = _gradients(optimiser, loss)
    return optimiser.apply_gradients([(tf.sign(g), v) for g, v in pairs])


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "clipped by all norms": _clipped,
    "each clipped": _each_clipped,
    "with noise": _noisy,
    "by hand": _by_hand,
    "by signs": _signs,
}


@contextlib.contextmanager
def _flow(v2: bool) -> Iterator[None]:
    before = tf1.control_flow_v2_enabled()
    (tf1.enable_control_flow_v2 if v2 else tf1.disable_control_flow_v2)()
    try:
        yield
    finally:
        (tf1.enable_control_flow_v2 if before else tf1.disable_control_flow_v2)()


def run_of(name: str, loss: Loss, v2: bool = False, step: Any = None) -> LearningRun:
    """Returns the learning run of a loss; with control flow and variables of TensorFlow 2 or 1."""
    random = np.random.default_rng(1)
    with _flow(v2), tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, 3], "x")
        y = tf1.placeholder(tf.float32, [None], "y")
        c = tf1.placeholder(tf.int32, [None], "c")
        image = tf1.placeholder(tf.float32, [None, 4, 4, 1], "image")
        ids = tf1.placeholder(tf.int32, [None, 2], "ids")
        flag, rate = tf1.placeholder(tf.bool, [], "flag"), tf1.placeholder(tf.float32, [], "rate")
        w = tf1.get_variable("w", [3, UNITS], use_resource=v2)
        table = tf1.get_variable("table", [6, 2], use_resource=v2)
        batch = Batch(tf.tanh(tf.matmul(x, w)), y, c, image, ids, table, flag, rate)
        value = loss(batch)
        optimiser = tf1.train.GradientDescentOptimizer(0.1)
        train = step(optimiser, value) if step is not None else optimiser.minimize(value)
        ends = [train.name, value.op.name]
        definition = tf1.graph_util.extract_sub_graph(graph.as_graph_def(add_shapes=True), ends)
    present = {node.name for node in definition.node}
    arrays = {
        "x": random.standard_normal((ROWS, 3)),
        "y": random.standard_normal(ROWS),
        "c": random.integers(0, CLASSES, ROWS).astype(np.int32),
        "image": random.standard_normal((ROWS, 4, 4, 1)),
        "ids": random.integers(0, 6, (ROWS, 2)).astype(np.int32),
        "flag": np.asarray(len(name) % 2 == 0),
        "rate": np.asarray(0.7),
    }
    fed = [key for key in arrays if key in present]
    return LearningRun(
        name=name,
        corpus="adversarial",
        graph=definition.SerializeToString(),
        feeds={f"{key}:0": arrays[key] for key in fed},
        divided=[f"{key}:0" for key in fed if key not in ("flag", "rate")],
        fetches=[value.name],
        targets=[train.name],
        trainable=["w", "table"],
    )


# Losses that a rule has once typed wrongly.
FOUND = (
    "a class for all",
    "a constant by places",
    "a constant by places and classes",
    "columns in turn, all results",
    "looked up distinct",
    "own column by batch",
    "parted by places",
    "places by places",
    "sampled",
    "scattered by places",
    "until all are small",
    "a mean in a loop, v2",
    "if a flag, v2",
)


def runs(every: int = 1) -> list[LearningRun]:
    """Returns every n-th run, and those of FOUND; with control flow of TensorFlow 1 and 2."""
    makers: dict[str, Callable[[], LearningRun]] = {}
    for name, loss in LOSSES.items():
        makers[name] = functools.partial(run_of, name, loss)
    for name, loss in FLOW.items():
        makers[f"{name}, v2"] = functools.partial(run_of, f"{name}, v2", loss, v2=True)
    for name, step in STEPS.items():
        a_mean, a_sum = f"a mean, {name}", f"a sum, {name}"
        makers[a_mean] = functools.partial(run_of, a_mean, MEANS["a mean"], step=step)
        makers[a_sum] = functools.partial(run_of, a_sum, MEANS["a sum"], v2=True, step=step)
    chosen = [*list(makers)[::every], *FOUND]
    return [makers[name]() for name in dict.fromkeys(chosen)]
