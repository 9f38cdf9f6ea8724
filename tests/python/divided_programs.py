"""Programs that may be divided by rows, and programs that may not, for row_division_test.

Each function builds a program in the default graph and returns its feeds, its loss and further
fetches, by name. `data` gives values for the feeds.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
ROWS, COLUMNS, CLASSES = 32, 20, 5


def in_turn(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Returns all combinations of the axes' values but of the last axis, whose values take turns.

    Each value of another axis meets each of the last one, if there are two other axes of at least
    so many values. Values of the last axis may be tuples, for several arguments.
    """
    *others, last = map(list, axes)
    turns = [value if isinstance(value, tuple) else (value,) for value in last]
    return [
        (*(value for _, value in one), *turns[sum(place for place, _ in one) % len(turns)])
        for one in itertools.product(*map(enumerate, others))
    ]


@dataclasses.dataclass
class Program:
    feeds: list[tf.Tensor]
    loss: tf.Tensor
    fetches: dict[str, tf.Tensor] = dataclasses.field(default_factory=dict)


def weights(name: str, *shape: int) -> tf.Variable:
    values = np.random.RandomState(len(name) + sum(shape)).randn(*shape) * 0.2
    return tf1.get_variable(name, initializer=values.astype("f"))


def _rows(random: np.random.RandomState, count: int = ROWS) -> list[np.ndarray]:
    labels = random.randint(0, CLASSES, count).astype("i")
    return [random.randn(count, COLUMNS).astype("f"), labels]


def _inputs() -> list[tf.Tensor]:
    return [tf1.placeholder(tf.float32, [None, COLUMNS]), tf1.placeholder(tf.int32, [None])]


def _cross_entropy(hidden: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    logits = tf.matmul(hidden, weights("out", 64, CLASSES))
    each = tf1.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return each, logits


def classifier(
    layer: Callable[[tf.Tensor], tf.Tensor] = lambda hidden: hidden,
    reduce: Callable[[tf.Tensor], tf.Tensor] = tf.reduce_mean,
) -> Callable[[], Program]:
    def build() -> Program:
        x, y = _inputs()
        hidden = layer(tf.nn.relu(tf.matmul(x, weights("in", COLUMNS, 64))))
        each, logits = _cross_entropy(hidden, y)
        right = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), y)
        fetches = {
            "each": each,
            "count": tf.reduce_sum(tf.cast(right, tf.int32)),
            "float count": tf.reduce_sum(tf.cast(right, tf.float32)),
            "accuracy": tf.reduce_mean(tf.cast(right, tf.float32)),
            "constant": tf.constant(7),
            "largest": tf.reduce_max(each),
            "log": tf.math.log(tf.reduce_mean(each)),
            "root": tf.sqrt(tf.reduce_mean(tf.square(each))) / 2 + 1,
            "any": tf.reduce_any(right),
            "guarded": tf.maximum(tf.abs(tf.reduce_mean(each)), 1e-6),
            "twice a row": tf.reshape(tf.stack([each, -each], axis=1), [-1]),
            "halves apart": tf.concat([each, -each], axis=0),
        }
        return Program([x, y], reduce(each), fetches)

    return build


def regularised(each: tf.Tensor) -> tf.Tensor:
    penalty = tf.add_n([tf.nn.l2_loss(v) for v in tf1.trainable_variables()])
    return tf.reduce_mean(each) + 1e-2 * penalty


def norm_by_moments(hidden: tf.Tensor) -> tf.Tensor:
    mean, variance = tf1.nn.moments(hidden, [0])
    offset, scale = weights("offset", 64), weights("scale", 64)
    return tf.nn.batch_normalization(hidden, mean, variance, offset, 1 + scale, 1e-3)


def fused_norm(hidden: tf.Tensor) -> tf.Tensor:
    images = tf.reshape(hidden, [-1, 1, 1, 64])
    scale, offset = 1 + weights("scale", 64), weights("offset", 64)
    images, _, _ = tf1.nn.fused_batch_norm(images, scale, offset, is_training=True)
    return tf.reshape(images, [-1, 64])


def masked() -> Program:
    x, y = _inputs()
    mask = tf1.placeholder(tf.float32, [None])
    each, _ = _cross_entropy(tf.nn.relu(tf.matmul(x, weights("in", COLUMNS, 64))), y)
    return Program([x, y, mask], tf.reduce_sum(each * mask) / tf.reduce_sum(mask))


def masked_data(random: np.random.RandomState) -> list[np.ndarray]:
    return _rows(random) + [(random.rand(ROWS) < 0.6).astype("f")]


def contrastive() -> Program:
    x = tf1.placeholder(tf.float32, [None, COLUMNS])
    a = tf.nn.l2_normalize(tf.matmul(x, weights("a", COLUMNS, 16)), 1)
    b = tf.nn.l2_normalize(tf.matmul(x + 0.1, weights("bb", COLUMNS, 16)), 1)
    likeness = tf.matmul(a, b, transpose_b=True) * 5
    each = tf1.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.range(tf.shape(x)[0]), logits=likeness
    )
    return Program([x], tf.reduce_mean(each))


def stacked_halves() -> Program:
    """Makes a siamese network: row i belongs to row n/2 + i."""
    x = tf1.placeholder(tf.float32, [None, COLUMNS])
    e = tf.matmul(x, weights("in", COLUMNS, 8))
    half = tf.shape(x)[0] // 2
    distance = tf.reduce_sum(tf.square(e[:half] - e[half:]), 1)
    return Program([x], tf.reduce_mean(distance))


def stacked_data(random: np.random.RandomState) -> list[np.ndarray]:
    x = random.randn(ROWS, COLUMNS).astype("f")
    x[ROWS // 2 :] = x[: ROWS // 2] + 0.01 * x[ROWS // 2 :]
    return [x]


def time_in_front() -> Program:
    """Makes feeds with as many steps as sequences; the second dimension is fixed."""
    x = tf1.placeholder(tf.float32, [None, ROWS, 3])
    y = tf1.placeholder(tf.float32, [None, ROWS, 4])
    w, u = weights("w", 3, 4), weights("u", 4, 4)
    states = tf1.scan(
        lambda state, step: tf.tanh(tf.matmul(state, u) + tf.matmul(step, w)),
        x,
        tf.zeros([ROWS, 4]),
    )
    return Program([x, y], tf.reduce_mean(tf.square(states - y)))


def sequences(random: np.random.RandomState) -> list[np.ndarray]:
    return [random.randn(ROWS, ROWS, 3).astype("f"), random.randn(ROWS, ROWS, 4).astype("f")]


def cumulative() -> Program:
    x = tf1.placeholder(tf.float32, [None, 24, 3])
    y = tf1.placeholder(tf.float32, [None, 24, 1])
    total = tf.cumsum(tf.tensordot(x, weights("w", 3, 1), 1), 0)
    return Program([x, y], tf.reduce_mean(tf.square(total - y)))


def cumulative_data(random: np.random.RandomState) -> list[np.ndarray]:
    x = random.randn(16, 24, 3).astype("f")
    return [x, np.cumsum(x.sum(2, keepdims=True), 0)]


def coordinates() -> Program:
    """Makes a sparse matrix of 8 rows, fed as dense arrays of its entries."""
    at = tf1.placeholder(tf.int64, [None, 2])
    values = tf1.placeholder(tf.float32, [None])
    y = tf1.placeholder(tf.float32, [8, 1])
    matrix = tf.SparseTensor(at, values, [8, COLUMNS])
    product = tf.sparse.sparse_dense_matmul(matrix, weights("w", COLUMNS, 1))
    return Program([at, values, y], tf.reduce_mean(tf.square(product - y)))


def entries(random: np.random.RandomState) -> list[np.ndarray]:
    count = 5  # in each of 8 rows but the last: shards end within a row
    at = [(row, (row * 7 + k) % COLUMNS) for row in range(8) for k in range(count)][:-4]
    values = random.rand(len(at)).astype("f")
    return [np.array(at, "int64"), values, random.rand(8, 1).astype("f")]


def rows_in_the_graph() -> Program:
    x, y = _inputs()
    hidden = tf.zeros([ROWS, 64]) + tf.matmul(x, weights("in", COLUMNS, 64))
    return Program([x, y], tf.reduce_mean(_cross_entropy(hidden, y)[0]))


def towers() -> Program:
    """Cuts the batch by constants, as in the multi-GPU tutorials."""
    x, y = _inputs()
    inner = weights("in", COLUMNS, 64)
    half = ROWS // 2
    hidden = [
        tf.nn.relu(tf.matmul(tf.slice(x, [k * half, 0], [half, COLUMNS]), inner)) for k in (0, 1)
    ]
    each, _ = _cross_entropy(tf.concat(hidden, 0), y)
    return Program([x, y], tf.reduce_mean(each))


def plain(random: np.random.RandomState) -> list[np.ndarray]:
    return _rows(random)


def only_x(random: np.random.RandomState) -> list[np.ndarray]:
    return _rows(random)[:1]


def train_op(loss: tf.Tensor, optimiser: Any = None) -> tf.Operation:
    return (optimiser or tf1.train.GradientDescentOptimizer(0.1)).minimize(loss)
