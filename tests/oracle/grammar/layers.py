"""The layers of a drawn program: activations in, activations out, [rows, UNITS]."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.oracle.grammar.feeds import CLASSES, COLUMNS, FEATURES, STEPS, TOKENS, UNITS

tf1 = tf.compat.v1
mean, total, square = tf.reduce_mean, tf.reduce_sum, tf.square

# ------------------------------------------------------------------------------- inputs


def of_columns(s):
    return tf.tanh(tf.matmul(s.feed("x"), s.weight("first", COLUMNS, UNITS)))


def of_tokens(s):
    """Embeddings with repeated ids, averaged over those that are no padding."""
    ids = s.feed("ids")
    real = tf.cast(ids > 0, tf.float64)[..., None]
    found = tf.nn.embedding_lookup(s.weight("table", TOKENS, UNITS), ids) * real
    return tf.tanh(total(found, 1) / tf.maximum(total(real, 1), 1.0)) + of_columns(s)


def of_padded_tokens(s):
    """Lookups in a table whose padding row is set to zero before each."""
    table = s.weight("table", TOKENS, UNITS)
    with tf.control_dependencies([tf1.scatter_update(table, 0, tf.zeros([UNITS], tf.float64))]):
        found = tf.nn.embedding_lookup(table, s.feed("ids"))
    return tf.tanh(mean(found, 1)) + of_columns(s)


def of_distinct_tokens(s):
    ids, places = tf.unique(tf.reshape(s.feed("ids"), [-1]))
    found = tf.gather(tf.gather(s.weight("table", TOKENS, UNITS), ids), places)
    return tf.tanh(mean(tf.reshape(found, [-1, 3, UNITS]), 1)) + of_columns(s)


def of_bag(s):
    product = tf1.sparse_tensor_dense_matmul(s.bag(), s.weight("bag", FEATURES, UNITS))
    return tf.tanh(product) + of_columns(s)


def of_bag_lookup(s):
    """Sparse features as ids with weights."""
    ids, weights = s.sparse("bag_ids"), s.bag()
    table = s.weight("bag", FEATURES, UNITS)
    found = tf1.nn.embedding_lookup_sparse(table, ids, weights, combiner="sum")
    return tf.tanh(found) + of_columns(s)


def of_sequence(s):
    """A recurrent network by hand, over time."""
    seq = tf.transpose(s.feed("seq"), [1, 0, 2])
    return _recurrent(s, seq, s.feed("lengths")) + of_columns(s)


def of_time_major(s):
    return _recurrent(s, s.feed("time_major"), None) + of_columns(s)


def _recurrent(s, seq, lengths):
    inner, outer = s.weight("inner", 2, UNITS), s.weight("outer", UNITS, UNITS)
    elements = tf.TensorArray(tf.float64, STEPS).unstack(seq)

    def step(t, state):
        new = tf.tanh(tf.matmul(elements.read(t), inner) + tf.matmul(state, outer))
        if lengths is not None:
            new = tf1.where(t < lengths, new, state)
        return t + 1, new

    start = tf.zeros(tf.stack([s.rows, UNITS]), tf.float64)
    return tf1.while_loop(lambda t, _: t < STEPS, step, [0, start])[1]


def of_scan(s):
    """tf.scan over time, and the mean over it."""
    inner = s.weight("inner", 2, UNITS)
    seq = tf.transpose(s.feed("seq"), [1, 0, 2])
    start = tf.zeros(tf.stack([s.rows, UNITS]), tf.float64)
    states = tf.scan(lambda h, e: tf.tanh(0.5 * h + tf.matmul(e, inner)), seq, start)
    return mean(states, 0) + of_columns(s)


def of_attention(s):
    """Attention over time within each row, with a mask of lengths."""
    seq = tf.einsum("bti,ij->btj", s.feed("seq"), s.weight("keys", 2, UNITS))
    scores = tf.matmul(seq, seq, transpose_b=True)
    seen = tf.sequence_mask(s.feed("lengths") + 1, STEPS, tf.float64)
    mixed = tf.matmul(tf.nn.softmax(scores - 30.0 * (1.0 - seen[:, None])), seq)
    return tf.tanh(mean(mixed, 1)) + of_columns(s)


def of_convolution(s):
    seq = s.feed("seq")
    found = tf.nn.conv1d(seq, s.weight("filters", 2, 2, UNITS), 1, "SAME")
    return tf.reduce_max(tf.tanh(found), 1) + of_columns(s)


INPUTS = {
    "columns": of_columns,
    "tokens": of_tokens,
    "padded tokens": of_padded_tokens,
    "distinct tokens": of_distinct_tokens,
    "bag": of_bag,
    "bag lookup": of_bag_lookup,
    "sequence": of_sequence,
    "time major": of_time_major,
    "scan": of_scan,
    "attention": of_attention,
    "convolution": of_convolution,
}

# ------------------------------------------------------------------------------- layers


def dense(s, h):
    return tf.tanh(tf.matmul(h, s.weight("dense", UNITS, UNITS)) + s.weight("bias", UNITS))


def rectified(s, h):
    return tf.nn.leaky_relu(tf.matmul(h, s.weight("dense", UNITS, UNITS)) + 0.01)


def residual(s, h):
    return h + 0.5 * dense(s, h)


def batch_norm(s, h):
    """Batch normalisation by hand, with update ops."""
    moments = tf.nn.moments(h, [0])
    for name, value in zip(("mean", "variance"), moments):
        moving = s.state(name, [0.0] * UNITS)
        s.before.append(tf1.assign_sub(moving, 0.1 * (moving - value)))
    scale, offset = s.weight("scale", UNITS), s.weight("offset", UNITS)
    return tf.tanh(tf.nn.batch_normalization(h, *moments, offset, scale, 0.1))


def batch_norm_in_cond(s, h):
    """Moments of the batch if a flag says so, moving ones otherwise."""
    moving = [s.state("mean", [0.0] * UNITS), s.state("variance", [1.0] * UNITS)]
    moments = tf.nn.moments(h, [0])

    def of_batch():
        kept = [tf1.assign(m, 0.9 * m + 0.1 * value) for m, value in zip(moving, moments)]
        with tf.control_dependencies(kept):
            return [tf.identity(value) for value in moments]

    used = tf1.cond(s.feed("often"), of_batch, lambda: [tf.identity(m) for m in moving])
    return tf.nn.batch_normalization(h, *used, s.weight("offset", UNITS), None, 0.1)


def renormalised(s, h):
    """Rows by a moving scale, which the step updates."""
    moving = s.state("scale_seen", 1.0)
    kept = tf1.assign(moving, 0.95 * moving + 0.05 * mean(tf.abs(h)))
    with tf.control_dependencies([kept]):
        return h / (0.5 + tf.stop_gradient(tf.identity(moving)))


def fused_batch_norm(s, h):
    """TensorFlow's op, in float32."""
    scale, offset = (tf.cast(s.weight(n, UNITS), tf.float32) for n in ("scale", "offset"))
    image = tf.cast(h, tf.float32)[:, None, None, :]
    image, _, _ = tf1.nn.fused_batch_norm(image, scale, offset, epsilon=0.1)
    return tf.tanh(tf.cast(image[:, 0, 0, :], tf.float64))


def layer_norm(s, h):
    moments = tf.nn.moments(h, [1], keepdims=True)
    return tf.nn.batch_normalization(h, *moments, s.weight("offset", UNITS), None, 0.1)


def dropout(s, h):
    """Dropout by fed noise."""
    return h * tf.cast(s.feed("noise") > 0.25, tf.float64) / 0.75


def stateless_dropout(s, h):
    """Stateless noise, one number for each activation, by the step."""
    seed = tf.stack([tf.cast(s.step, tf.int32), 5])
    noise = tf.random.stateless_uniform(tf.shape(h), seed, dtype=tf.float64)
    return h * tf.cast(noise > 0.25, tf.float64) / 0.75


def noise_on_units(s, h):
    """Stateless noise, the same for all rows."""
    seed = tf.stack([tf.cast(s.step, tf.int32), 6])
    return h + 0.1 * tf.random.stateless_normal([UNITS], seed, dtype=tf.float64)


def cond_on_flag(s, h):
    kernel = s.weight("kernel", UNITS, UNITS)
    return tf1.cond(s.feed("flag"), lambda: tf.tanh(tf.matmul(h, kernel)), lambda: 0.9 * h)


def cond_on_step(s, h):
    """Another layer from a step on."""
    kernel = s.weight("kernel", UNITS, UNITS)
    return tf1.cond(s.step > 80, lambda: tf.tanh(tf.matmul(h, kernel)), lambda: tf.identity(h))


def cond_on_mean(s, h):
    """A branch by a statistic of the batch."""
    return tf1.cond(mean(tf.abs(h)) > 0.45, lambda: 0.5 * h, lambda: tf.tanh(h))


def repeated(s, h):
    """A loop with shared weights, as often as is fed."""
    kernel, count = s.weight("kernel", UNITS, UNITS), s.feed("count")

    def body(i, a):
        return i + 1, tf.tanh(0.8 * a + 0.2 * tf.matmul(a, kernel))

    shapes = [tf.TensorShape([]), tf.TensorShape([None, UNITS])]
    return tf1.while_loop(lambda i, _: i < count, body, [0, h], shapes)[1]


def until_small(s, h):
    """A loop whose end depends on the rows."""
    shapes = [tf.TensorShape([]), tf.TensorShape([None, UNITS])]
    return tf1.while_loop(
        lambda i, a: tf.logical_and(i < 4, mean(square(a)) > 0.3),
        lambda i, a: (i + 1, 0.7 * a),
        [0, h],
        shapes,
    )[1]


def map_over_rows(s, h):
    kernel = s.weight("kernel", UNITS, UNITS)
    return tf.map_fn(lambda row: tf.tanh(tf.linalg.matvec(kernel, row)), h)


def map_over_units(s, h):
    """map_fn over the columns."""
    shift = s.weight("shift", UNITS)
    columns = tf.map_fn(lambda p: tf.tanh(p[0] + p[1]), (tf.transpose(h), shift), tf.float64)
    return tf.transpose(columns)


def gated_by_largest(s, h):
    return h / (1.0 + tf.reduce_max(tf.abs(h), 0))


def centred(s, h):
    return h - mean(h, 0)


def experts(s, h):
    """An expert for each class of rows."""
    kernels = s.weight("experts", CLASSES, UNITS, UNITS)
    return tf.tanh(tf.einsum("bi,bij->bj", h, tf.gather(kernels, s.feed("c"))))


def partitioned(s, h):
    """Rows apart by class, and together again."""
    parts = tf.dynamic_partition(h, s.feed("c"), CLASSES)
    places = tf.dynamic_partition(tf.range(s.rows), s.feed("c"), CLASSES)
    scale = s.weight("scales", CLASSES)
    joined = tf.dynamic_stitch(places, [part * scale[k] for k, part in enumerate(parts)])
    return tf.reshape(joined, [-1, UNITS])


def squeezed(s, h):
    """Scales each unit by its mean (squeeze and excite), over time as in pictures."""
    return h * tf.sigmoid(tf.matmul(h, s.weight("squeeze", UNITS, UNITS)))


def weight_norm(s, h):
    kernel, scale = s.weight("kernel", UNITS, UNITS), s.weight("scale", UNITS)
    return tf.tanh(tf.matmul(h, tf.nn.l2_normalize(kernel, 0)) * (1.0 + scale))


def spectral_norm(s, h):
    """Weights by their largest singular value, which a step of the power method estimates."""
    kernel, kept = s.weight("kernel", UNITS, UNITS), s.state("u", [1.0, 0.5, -0.5, 0.2])
    v = tf.nn.l2_normalize(tf.linalg.matvec(kernel, kept, transpose_a=True))
    u = tf.nn.l2_normalize(tf.linalg.matvec(kernel, v))
    u, v = tf.stop_gradient(u), tf.stop_gradient(v)
    s.after.append(tf1.assign(kept, u))
    sigma = tf.tensordot(u, tf.linalg.matvec(kernel, v), 1)
    return tf.matmul(h, kernel) / (tf.abs(sigma) + 0.5)


def running_centre(s, h):
    """Rows less a moving mean that the step reads before it updates it."""
    moving = s.state("centre", [0.0] * UNITS)
    old = moving + 0.0  # a copy: the value read from a reference variable changes with it
    s.after.append(tf1.assign(moving, 0.9 * old + 0.1 * mean(h, 0)))
    return h - tf.stop_gradient(old)


def by_case(s, h):
    """One of three layers, by the fed number."""
    kernel, index = s.weight("kernel", UNITS, UNITS), s.feed("count") - 1
    branches = [lambda: h, lambda: tf.tanh(tf.matmul(h, kernel)), lambda: 0.5 * h]
    return tf.switch_case(index, branches)


def in_function(s, h):
    """A tf.function in the graph."""
    kernel = s.weight("kernel", UNITS, UNITS)

    @tf.function
    def layer(a, k):
        return tf.tanh(tf.matmul(a, k)) - 0.1 * mean(a, 0)

    return layer(h, tf.identity(kernel))


def straight_through(s, h):
    """Signs forwards, the identity backwards."""
    return 0.5 * h + tf.stop_gradient(0.3 * tf.sign(h) - 0.5 * h)


def quantised(s, h):
    """Rounding by a range of all rows."""
    low, high = tf.reduce_min(h), tf.reduce_max(h)
    step = (high - low + 0.1) / 7.0
    return h + tf.stop_gradient(tf.round((h - low) / step) * step + low - h)


def sorted_units(s, h):
    return tf.sort(h, 1)


def top_units(s, h):
    """Each row's two largest units."""
    h += 1e-3 * np.arange(1.0, 1.0 + UNITS)  # equal units are apart
    least = tf.nn.top_k(h, 2).values[:, 1:]
    return h * tf.cast(h >= least, tf.float64)


def sparse_rows(s, h):
    """Rows chosen by a mask, changed, and put back."""
    places = tf1.where(s.feed("mask") > 0)
    chosen = tf.tanh(tf.gather_nd(h, places))
    return 0.5 * h + tf.scatter_nd(places, chosen, tf.shape(h, tf.int64))


def softmax_over_rows(s, h):
    return h + tf.nn.softmax(h, 0)


LAYERS = {
    "dense": dense,
    "rectified": rectified,
    "residual": residual,
    "batch norm": batch_norm,
    "batch norm in cond": batch_norm_in_cond,
    "renormalised": renormalised,
    "fused batch norm": fused_batch_norm,
    "layer norm": layer_norm,
    "dropout": dropout,
    "stateless dropout": stateless_dropout,
    "noise on units": noise_on_units,
    "cond on flag": cond_on_flag,
    "cond on step": cond_on_step,
    "cond on mean": cond_on_mean,
    "repeated": repeated,
    "until small": until_small,
    "map over rows": map_over_rows,
    "map over units": map_over_units,
    "gated by largest": gated_by_largest,
    "centred": centred,
    "experts": experts,
    "partitioned": partitioned,
    "squeezed": squeezed,
    "weight norm": weight_norm,
    "spectral norm": spectral_norm,
    "running centre": running_centre,
    "by case": by_case,
    "in function": in_function,
    "straight through": straight_through,
    "quantised": quantised,
    "sorted units": sorted_units,
    "top units": top_units,
    "sparse rows": sparse_rows,
    "softmax over rows": softmax_over_rows,
}
