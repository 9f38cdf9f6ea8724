"""Batch normalisation on several learners: under averaged gradients they normalise by the
moments of all rows, as a stock session does."""

import functools
import warnings

import numpy as np
import pytest
import tensorflow as tf
from programs import session

import tensorbow
from tests.python.divided_programs import in_turn

tf1 = tf.compat.v1

CHANNELS, CLASSES = 5, 3


def weights(name, *shape):
    values = np.random.RandomState(len(name) + sum(shape)).randn(*shape) * 0.4
    return tf1.get_variable(name, initializer=values.astype("f"))


def fused(x, scale, offset):
    return tf1.nn.fused_batch_norm(x, scale, offset, is_training=True)


def by_hand(x, scale, offset):
    mean, variance = tf1.nn.moments(x, [0, 1, 2])
    return tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-3), mean, variance


def keeping_dimensions(x, scale, offset):
    mean, variance = tf1.nn.moments(x, [0, 1, 2], keepdims=True)
    y = tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-3)
    return y, tf.reshape(mean, [-1]), tf.reshape(variance, [-1])


def mean_of_squares(x, scale, offset):
    mean = tf.reduce_mean(x, [0, 1, 2])
    variance = tf.reduce_mean(tf.square(x), [0, 1, 2]) - tf.square(mean)
    return (x - mean) * tf.math.rsqrt(variance + 1e-3) * scale + offset, mean, variance


class Network:
    """Two normalised convolutions, the first rectified, in the default graph."""

    def __init__(self, reduce=tf.reduce_mean, fixed=None, normalise=fused):
        self.moving = []
        self.normalise = normalise
        self.x = tf1.placeholder(tf.float32, [fixed, 6, 6, 2], name="x")
        self.y = tf1.placeholder(tf.int32, [fixed], name="y")
        hidden = self.normalised(self.x, "first", 2)
        hidden = hidden + self.normalised(tf.nn.relu(hidden), "second", CHANNELS)
        logits = tf.reduce_mean(tf.nn.relu(hidden), [1, 2]) @ weights("out", CHANNELS, CLASSES)
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.y, logits=logits)
        self.loss = reduce(each)
        rate = 0.1 if reduce is tf.reduce_mean else 0.005
        with tf.control_dependencies(self.moving):
            optimiser = tf1.train.MomentumOptimizer(rate, 0.9)
            self.train = optimiser.minimize(self.loss)

    def normalised(self, x, name, inputs):
        x = tf.nn.conv2d(x, weights(f"{name}_kernel", 3, 3, inputs, CHANNELS), 1, "SAME")
        scale, offset = weights(f"{name}_scale", CHANNELS), weights(f"{name}_offset", CHANNELS)
        y, mean, variance = self.normalise(x, 1 + scale, offset)
        for what, value in (("mean", mean), ("variance", variance)):
            kept = tf1.get_variable(f"{name}_{what}", [CHANNELS], trainable=False)
            self.moving.append(kept.assign(0.9 * kept + 0.1 * value))
        return y


def data_for(network, rows, runs):
    random = np.random.RandomState(5)
    for _ in range(runs):
        # Far from zero, and different for any two learners.
        x = random.randn(rows, 6, 6, 2) * np.arange(1, rows + 1).reshape(-1, 1, 1, 1) + 20
        yield {network.x: x.astype("f"), network.y: random.randint(0, CLASSES, rows)}


def train(make_session, rows, runs=5, **network):
    graph = tf.Graph()
    with graph.as_default():
        tf1.set_random_seed(1)
        built = Network(**network)
        variables = tf1.global_variables()
        init = tf1.global_variables_initializer()
    with make_session(graph) as s:
        s.run(init)
        losses = [
            s.run([built.train, built.loss], feeds)[1] for feeds in data_for(built, rows, runs)
        ]
        tasks = getattr(s, "learning_tasks", None)
        return losses, dict(zip([v.name for v in variables], s.run(variables))), tasks


def stock(graph):
    return tf1.Session(graph=graph)


@functools.cache
def by_stock(rows, **network):
    """Returns the results of `train` in a stock session, with which several tests compare."""
    return train(stock, rows, **network)


def ours(learners, **options):
    options = {"synchroniser": "auto"} | options
    return lambda graph: session(graph, learners, **options)


def assert_alike(found, wanted, rtol=1e-3):
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-4)
    assert found[1].keys() == wanted[1].keys()
    for name, value in wanted[1].items():
        np.testing.assert_allclose(found[1][name], value, rtol=rtol, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("learners, rows", [(2, 7), (3, 8), (4, 3)])
@pytest.mark.parametrize("normalise", [fused, by_hand, keeping_dimensions, mean_of_squares])
def test_all_rows_are_normalised_together(normalise, learners, rows):
    wanted = by_stock(rows, normalise=normalise)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = train(ours(learners), rows, normalise=normalise)
    assert found[2] == 5 * min(rows, learners)
    assert_alike(found, wanted)


@pytest.mark.parametrize("normalise, rows", [(fused, 7), (by_hand, 8)])
def test_a_loss_that_sums_over_rows(normalise, rows):
    wanted = by_stock(rows, reduce=tf.reduce_sum, normalise=normalise)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = train(ours(3), rows, reduce=tf.reduce_sum, normalise=normalise)
    assert found[2] == 15
    assert_alike(found, wanted)


def test_a_batch_of_a_fixed_number_of_rows():
    wanted = by_stock(8, fixed=8)
    found = train(ours(4), 8, fixed=8)
    assert found[2] == 20
    assert_alike(found, wanted)


@pytest.mark.parametrize(
    "options", [{"batch_size": 4}, {"synchroniser": tensorbow.SMA()}], ids=["batches", "SMA"]
)
def test_elsewhere_learners_normalise_by_their_own_rows(options):
    """Tasks of a batch_size are batches of their own, and averaged models differ in their
    progress."""
    whole = by_stock(8)
    found = train(ours(2, **options), 8)
    assert found[2] == 10
    assert np.abs(found[1]["first_mean:0"] - whole[1]["first_mean:0"]).max() > 1e-3


def test_a_learner_that_fails_leaves_nothing():
    """The others wait in a normalisation for a learner whose rows are not numbers."""
    graph = tf.Graph()
    with graph.as_default():
        built = Network()
        checked = tf.debugging.check_numerics(built.loss, "the loss")
        with tf.control_dependencies([checked]):
            step = tf.group(built.train)
        x = tf1.placeholder(tf.float32, [None, 6, 6, 2])
        bad = tf.debugging.assert_less(tf.reduce_max(x), 50.0)
        with tf.control_dependencies([bad]):
            hidden = built.normalised(tf.identity(x), "third", 2)
        other = tf.reduce_mean(tf.square(hidden))
        train_other = tf1.train.GradientDescentOptimizer(0.1).minimize(other)
        variables = tf1.trainable_variables()
        init = tf1.global_variables_initializer()
    with session(graph, 2, synchroniser="auto") as s:
        s.run(init)
        rows = np.random.RandomState(0).randn(8, 6, 6, 2)
        s.run(train_other, {x: rows})
        before = s.run(variables)
        for learner in range(2):
            wrong = rows.copy()
            wrong[4 * learner] = 100
            with pytest.raises(tf.errors.InvalidArgumentError):
                s.run(train_other, {x: wrong})
        for value, old in zip(s.run(variables), before):
            np.testing.assert_array_equal(value, old)
        s.run(train_other, {x: rows})
        assert s.learning_tasks == 4
    del step


OF_ALL_ROWS = {
    "root": lambda each: tf.sqrt(tf.reduce_mean(each)),
    "largest": lambda each: tf.reduce_mean(each) + tf.reduce_max(each),
    "variance": lambda each: tf.reduce_mean(tf.square(each - tf.reduce_mean(each))),
}


@pytest.mark.parametrize("normalise", [fused, by_hand])
@pytest.mark.parametrize("reduce", OF_ALL_ROWS)
def test_a_loss_of_all_rows_is_divided_together_too(reduce, normalise):
    network = {"reduce": OF_ALL_ROWS[reduce], "normalise": normalise}
    wanted = by_stock(12, **network)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = train(ours(2), 12, **network)
    assert found[2] == 10
    assert_alike(found, wanted)


@pytest.mark.parametrize("normalise", [fused, by_hand])
def test_a_loss_that_mixes_rows_is_divided_together_too(normalise):
    network = {
        "reduce": lambda each: tf.reduce_sum(tf.nn.softmax(each) * each),
        "normalise": normalise,
    }
    wanted = by_stock(12, **network)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = train(ours(2), 12, **network)
    assert found[2] == 10
    assert_alike(found, wanted)


def kept():
    return tf1.get_default_graph().get_tensor_by_name("y:0") > 0


def masked(guarded=False):
    def reduce(each):
        mask = tf.cast(kept(), tf.float32)
        total = tf.reduce_sum(mask)
        return tf.reduce_sum(each * mask) / (tf.maximum(total, 1.0) if guarded else total)

    return reduce


MASKED = {
    "masked": masked(),
    "guarded": masked(guarded=True),
    "weighted": lambda each: tf1.losses.compute_weighted_loss(each, tf.cast(kept(), tf.float32)),
}


@pytest.mark.parametrize(
    "reduce, normalise, rows", in_turn(MASKED, [fused, by_hand, mean_of_squares], [12, 13])
)
def test_a_mean_over_unmasked_rows_is_divided_together_too(reduce, normalise, rows):
    network = {"reduce": MASKED[reduce], "normalise": normalise}
    wanted = by_stock(rows, **network)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = train(ours(2), rows, **network)
    assert found[2] == 10
    assert_alike(found, wanted)


def test_averaged_models_may_have_a_loss_of_all_rows():
    found = train(ours(2, synchroniser=tensorbow.SMA()), 12, reduce=OF_ALL_ROWS["root"])
    assert found[2] == 10


def second_version(x, scale, offset):
    y, mean, variance, _, _ = tf.raw_ops.FusedBatchNormV2(
        x=x, scale=scale, offset=offset, mean=[], variance=[], epsilon=1e-3
    )
    return y, mean, variance


def test_an_op_that_learners_do_not_know_is_for_one_learner():
    wanted = by_stock(8, normalise=second_version)
    with pytest.warns(tensorbow.TensorBowWarning, match="normalises in another layout or type"):
        found = train(ours(2), 8, normalise=second_version)
    assert found[2] == 5
    assert_alike(found, wanted)


def test_what_normalises_by_kept_moments_changes_nothing():
    """Layers that are frozen, beside layers that are trained."""

    def some_frozen(x, scale, offset):
        ones = tf.ones([CHANNELS])
        x, _, _ = tf1.nn.fused_batch_norm(x, ones, 0 * ones, 0 * ones, ones, is_training=False)
        return fused(x, scale, offset)

    wanted = by_stock(8, normalise=some_frozen)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = train(ours(2), 8, normalise=some_frozen)
    assert found[2] == 10
    assert_alike(found, wanted)


def test_two_executions_give_the_same_bits():
    first, second = train(ours(3), 7), train(ours(3), 7)
    for name, value in first[1].items():
        np.testing.assert_array_equal(value, second[1][name])
