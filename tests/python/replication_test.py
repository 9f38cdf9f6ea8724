"""The state that replicas share with the rest of a session, and runs that replicas cannot help."""

import warnings

import numpy as np
import pytest
import tensorflow as tf
from programs import linear, rows, session

import tensorbow

tf1 = tf.compat.v1


def messages(caught):
    return [str(w.message) for w in caught if w.category is tensorbow.TensorBowWarning]


@pytest.mark.parametrize("control_flow_v2", [True, False])
def test_one_learner_draws_on_where_evaluation_stopped(control_flow_v2):
    """Evaluation draws dropout, too; both draw from one stream, as in stock."""
    graph = tf.Graph()
    flow = tf1.control_flow_v2_enabled()
    (tf1.enable_control_flow_v2 if control_flow_v2 else tf1.disable_control_flow_v2)()
    try:
        with graph.as_default():
            tf1.set_random_seed(3)
            w = tf1.get_variable("w", initializer=np.ones(16, np.float32))
            x = tf1.placeholder(tf.float32, [None, 16])
            noisy = tf1.nn.dropout(x * w, rate=0.5)
            more = tf1.cond(
                tf.reduce_sum(x) > 0, lambda: noisy + tf.random.normal([16]), lambda: noisy
            )
            train = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(more))
            init = tf1.global_variables_initializer()
    finally:
        (tf1.enable_control_flow_v2 if flow else tf1.disable_control_flow_v2)()

    def values(s):
        s.run(init)
        feed = {x: np.ones((2, 16))}
        return [s.run([more, train] if k % 3 else more, feed)[0] for k in range(7)], s.run(w)

    with tf1.Session(graph=graph) as stock:
        expected, expected_w = values(stock)
    with session(graph, learners=1) as s:
        actual, actual_w = values(s)
    for a, e in zip(actual, expected):
        np.testing.assert_array_equal(a, e)
    np.testing.assert_array_equal(actual_w, expected_w)


@pytest.mark.parametrize("even", [True, False])
def test_learning_rate_inside_a_branch_that_is_not_taken(even):
    """The session reads learning rates by themselves; this one has no value then."""
    tf1.disable_control_flow_v2()
    try:
        p = linear()
        with p.graph.as_default():
            optimiser = tf1.train.GradientDescentOptimizer(
                tf1.train.exponential_decay(0.1, p.step, 10, 0.5)
            )
            gradients = optimiser.compute_gradients(p.loss)
            train = tf1.cond(
                tf.equal(p.step % 2, 0),
                lambda: tf.group(optimiser.apply_gradients(gradients)),
                tf.no_op,
            )
    finally:
        tf1.enable_control_flow_v2()
    x, y = rows(8)
    with session(p.graph) as s:
        s.run(p.init)
        s.run(p.step.assign(0 if even else 1))
        before = s.learner_value(p.w, 0)
        s.run(train, {p.x: x, p.y: y})
        assert s.learning_tasks == 2
        assert np.array_equal(s.learner_value(p.w, 0), before) != even


def test_learning_rate_chosen_by_a_branch_still_restarts():
    """A rate that is the result of a conditional is read."""
    tf1.disable_control_flow_v2()
    try:
        p = linear()
        with p.graph.as_default():
            rate = tf1.cond(p.step < 2, lambda: tf.constant(0.1), lambda: tf.constant(0.01))
            train = tf1.train.GradientDescentOptimizer(rate).minimize(p.loss, global_step=p.step)
    finally:
        tf1.enable_control_flow_v2()
    x, y = rows(8)
    with session(p.graph) as s, session(p.graph, synchroniser=tensorbow.SMA(restart="never")) as t:
        for each in (s, t):
            each.run(p.init)
            for _ in range(3):
                each.run(train, {p.x: x, p.y: y})
        assert not np.array_equal(s.learner_value(p.w, 0), t.learner_value(p.w, 0))


def test_run_in_which_all_learners_do_the_same_is_told_once():
    graph = tf.Graph()
    with graph.as_default():
        w = tf1.get_variable("w", initializer=np.float32(1))
        noise = tf.random.normal([])
        same = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.square(w))
        noisy = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.square(w + noise))
        init = tf1.global_variables_initializer()
    for learners, train, expected in ((2, same, 1), (1, same, 0), (2, noisy, 0)):
        with session(graph, learners) as s, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            s.run(init)
            s.run(train)
            s.run(train)
        assert len(messages(caught)) == expected
        assert all("compute the same" in text for text in messages(caught))


def test_upkeep_of_variables_is_not_told_of():
    """Soft updates of a target network, clipped weights: no optimiser, no data, no harm."""
    graph = tf.Graph()
    with graph.as_default():
        w = tf1.get_variable("w", initializer=np.float32(3))
        target = tf1.get_variable("target", initializer=np.float32(1))
        soft = tf1.assign(target, 0.5 * w + 0.5 * target)
        clip = tf1.assign(w, tf.clip_by_value(w, -2, 2))
        init = tf1.global_variables_initializer()
    with session(graph) as s, warnings.catch_warnings():
        warnings.simplefilter("error")
        s.run(init)
        for _ in range(40):
            s.run(soft)
            s.run(clip)
        kept, followed = s.run([w, target])
        assert kept <= 2
        np.testing.assert_allclose(followed, kept, atol=1e-3)


@pytest.mark.parametrize(
    "devices, told",
    [
        (["/gpu:0", "/gpu:1"], ["/GPU:0, /GPU:1"]),
        (["/cpu:0", "/gpu:0"], []),
        (["/cpu:0", "/job:localhost/replica:0/task:0/device:GPU:3"], []),
        (["/gpu:2", "/gpu:0", "/cpu:0"], ["/GPU:0, /GPU:2"]),
    ],
)
def test_towers_are_told_what_takes_their_place(devices, told):
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None])
        w = tf1.get_variable("w", initializer=np.float32(1))
        losses = []
        for device in devices:
            with tf.device(device):
                losses.append(tf.reduce_mean(tf.square(w * x)))
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.add_n(losses))
        init = tf1.global_variables_initializer()
    config = tf1.ConfigProto(allow_soft_placement=True)
    options = tensorbow.Options(learners_per_device=2)
    with tensorbow.TensorBowSession(graph=graph, config=config, options=options) as s:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            s.run(init)
            s.run(train, {x: [1, 2]})
            s.run([train, w], {x: [1, 2]})
        assert s.learning_tasks == 4
    assert len(messages(caught)) == len(told)
    for text, names in zip(messages(caught), told):
        assert text.endswith(f"Got the devices {names}.")


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("read_before", [False, True], ids=["at once", "after a read"])
@pytest.mark.parametrize("centre", ["current", "lagging"])
def test_run_on_the_central_model_goes_on_from_what_all_learners_learned(
    use_resource, read_before, centre
):
    """A lagging z lacks the replicas' last updates; one learner alone must not lose them."""
    p = linear(use_resource=use_resource)
    x, y = rows(8)
    with p.graph.as_default():
        block = tf1.placeholder(tf.float32, [3, 2], name="block")
        numbered = tf.constant([[0.0], [1.0], [2.0]]) * block  # for one learner
        still = tf1.train.GradientDescentOptimizer(0.0).minimize(tf.reduce_sum(numbered * p.w))
    synchroniser = tensorbow.SMA(centre=centre)
    with session(p.graph, synchroniser=synchroniser) as s, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        s.run(p.init)
        before = s.run(p.w)
        s.run(p.train, {p.x: x, p.y: y})
        replicas = [s.learner_value(p.w, j) for j in range(2)]
        assert not np.array_equal(replicas[0], replicas[1])
        earlier = replicas
        if read_before:
            s.run(p.w)
        s.run(still, {block: np.ones((3, 2))})  # a fixed batch: one learner
        np.testing.assert_allclose(s.run(p.w), np.mean(replicas, axis=0), rtol=1e-6)
        assert not np.array_equal(s.run(p.w), before)
        s.run(p.train, {p.x: x, p.y: y})  # replicas and z restart from there
        replicas = [s.learner_value(p.w, j) for j in range(2)]
        start = np.mean(earlier, axis=0)
        for replica, shard in zip(replicas, (slice(0, 4), slice(4, 8))):
            gradient = 2 * x[shard].T @ (x[shard] @ start - y[shard]) / 4
            np.testing.assert_allclose(replica, start - 0.05 * gradient, rtol=1e-5)


def test_counts_can_be_read_after_close():
    p = linear()
    x, y = rows(8)
    with session(p.graph) as s:
        s.run(p.init)
        s.run(p.train, {p.x: x, p.y: y})
    assert (s.num_learners, s.iterations, s.learning_tasks, s.samples_seen) == (2, 1, 2, 8)
    s.close()
    assert s.learning_tasks == 2
