"""The kinds of runs (learning, write, read), and their effects on the central model."""

import numpy as np
import pytest
import tensorflow as tf
from programs import linear, rows, session

import tensorbow

tf1 = tf.compat.v1


@pytest.fixture(params=[True, False], ids=["resource", "reference"])
def use_resource(request):
    return request.param


def replicas(s, variable):
    return [s.learner_value(variable, j) for j in range(s.num_learners)]


def test_write_reaches_every_learner_before_the_next_learning_run(use_resource):
    p = linear(use_resource)
    x, y = rows(8)
    with p.graph.as_default():
        value = tf1.placeholder(tf.float32, [2])
        assign = p.w.assign(value)
    with session(p.graph) as s:
        s.run(p.init)
        for _ in range(3):
            s.run(p.train, {p.x: x, p.y: y})
        assert not np.array_equal(*replicas(s, p.w))
        s.run(assign, {value: [7, 8]})
        np.testing.assert_array_equal(s.run(p.w), [7, 8])
        for replica in replicas(s, p.w):
            np.testing.assert_array_equal(replica, [7, 8])
        assert s.learning_tasks == 6
        p.w.load([5, 6], s)
        np.testing.assert_array_equal(s.run(p.w), [5, 6])
        # A learning run starts from there: with an error of zero it stays there.
        s.run(p.train, {p.x: np.zeros_like(x), p.y: np.zeros_like(y)})
        for replica in replicas(s, p.w):
            np.testing.assert_array_equal(replica, [5, 6])


def test_read_sees_the_mean_of_replicas_not_one_of_them(use_resource):
    p = linear(use_resource)
    x, y = rows(9)
    with session(p.graph) as s:
        s.run(p.init)
        for _ in range(5):
            s.run(p.train, {p.x: x, p.y: y})
        values = replicas(s, p.w)
        assert not np.array_equal(*values)
        z = s.run(p.w)
        np.testing.assert_allclose(z, np.mean(values, axis=0), rtol=1e-6)
        loss = s.run(p.loss, {p.x: x, p.y: y})
        np.testing.assert_allclose(loss, np.mean((x @ z - y) ** 2), rtol=1e-5)
        assert s.learning_tasks == 10


def test_a_write_is_a_write_whatever_the_value(use_resource):
    """`init; train; init`, or writing the value of z: replicas start from it in any case."""
    p = linear(use_resource)
    x, y = rows(8)
    with p.graph.as_default():
        same = p.w.assign(tf1.placeholder_with_default(tf.zeros([2]), [2], name="v"))
    for centre in ("current", "lagging"):
        with session(p.graph, synchroniser=tensorbow.SMA(centre=centre)) as s:
            s.run(p.init)
            initial = s.run(p.w)
            s.run(p.train, {p.x: x, p.y: y})
            s.run(p.init)
            for replica in (*replicas(s, p.w), s.run(p.w)):
                np.testing.assert_array_equal(replica, initial)
            for _ in range(3):
                s.run(p.train, {p.x: x, p.y: y})
            assert not np.array_equal(*replicas(s, p.w))
            z = s.run(p.w)
            s.run(same, {"v:0": z})
            for replica in replicas(s, p.w):
                np.testing.assert_array_equal(replica, z)


def test_target_network_copy_is_a_write(use_resource):
    """DQN: copying one trainable variable into another happens on the central model."""
    p = linear(use_resource)
    x, y = rows(8)
    with p.graph.as_default():
        target = tf1.get_variable(
            "target", initializer=np.zeros(2, np.float32), use_resource=use_resource
        )
        copy = target.assign(p.w)
        init = tf1.global_variables_initializer()
    with session(p.graph) as s:
        s.run(init)
        for _ in range(3):
            s.run(p.train, {p.x: x, p.y: y})
        tasks = s.learning_tasks
        s.run(copy)
        assert s.learning_tasks == tasks
        np.testing.assert_array_equal(s.run(target), s.run(p.w))


def test_initialiser_that_reads_another_variable_is_a_write(use_resource):
    graph = tf.Graph()
    with graph.as_default():
        a = tf1.get_variable("a", initializer=np.float32(3), use_resource=use_resource)
        b = tf1.Variable(lambda: a.read_value() * 2, use_resource=use_resource, name="b")
    with session(graph) as s:
        s.run(a.initializer)
        s.run(b.initializer)
        assert s.run([a, b]) == [3, 6]
        assert s.learning_tasks == 0


def test_counting_up_is_a_write_even_for_a_trainable_variable(use_resource):
    graph = tf.Graph()
    with graph.as_default():
        v = tf1.get_variable("v", initializer=np.float32(1), use_resource=use_resource)
        add = tf1.assign_add(v, 2.0)
        init = tf1.global_variables_initializer()
    with session(graph) as s:
        s.run(init)
        for _ in range(3):
            s.run(add)
        assert s.run(v) == 7
        assert s.learning_tasks == 0


def test_hand_written_update_learns(use_resource):
    """Uses assign_sub of a gradient, as Keras and many programs do."""
    p = linear(use_resource)
    x, y = rows(8)
    with p.graph.as_default():
        gradient = tf.gradients(p.loss, p.w)[0]
        by_sub = tf1.assign_sub(p.w, 0.05 * gradient)
        by_assign = tf1.assign(p.w, p.w - 0.05 * gradient)
    outcomes = []
    for train in (p.train, by_sub, by_assign):
        with session(p.graph) as s:
            s.run(p.init)
            for _ in range(5):
                s.run(train, {p.x: x, p.y: y})
            assert s.learning_tasks == 10
            outcomes.append([s.run(p.w), *replicas(s, p.w)])
    for outcome in outcomes[1:]:
        for a, b in zip(outcome, outcomes[0]):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def clip_program(use_resource, optimiser, c):
    p = linear(use_resource, optimiser)
    with p.graph.as_default():
        p.clip = p.w.assign(tf.clip_by_value(p.w, -c, c))
    return p


@pytest.mark.parametrize(
    "optimiser",
    [
        lambda: tf1.train.RMSPropOptimizer(0.05),
        lambda: tf1.train.GradientDescentOptimizer(0.1),
    ],
    ids=["rmsprop", "gradient_descent"],
)
def test_weight_clipping_in_turn_with_training_leaves_the_model_inside_the_range(
    use_resource, optimiser
):
    """WGAN: the clip is a write, so that no momentum of z moves the model out of the range
    again."""
    c = np.float32(0.2)
    p = clip_program(use_resource, optimiser, c)
    x, y = rows(8)
    with session(p.graph, synchroniser=tensorbow.SMA()) as s:
        s.run(p.init)
        for _ in range(6):
            s.run(p.train, {p.x: x, p.y: y})
            before = s.run(p.w)
            s.run(p.clip)
            np.testing.assert_array_equal(s.run(p.w), np.clip(before, -c, c))
        assert s.learning_tasks == 12


def test_clip_in_one_run_with_the_update_stays_learning(use_resource):
    c = np.float32(0.2)
    p = linear(use_resource)
    x, y = rows(8)
    with p.graph.as_default():
        with tf.control_dependencies([p.train]):
            now = p.w.read_value() if use_resource else tf.identity(p.w)
            clip = p.w.assign(tf.clip_by_value(now, -c, c))
        both = tf.group(p.train, clip)
    with session(p.graph) as s:
        s.run(p.init)
        for _ in range(3):
            s.run(both, {p.x: x, p.y: y})
        assert s.learning_tasks == 6


def test_hand_written_update_from_a_slot_that_is_fed_learns(use_resource):
    """The feeds reach the weights through another variable of the same run."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None])
        w = tf1.get_variable("w", initializer=np.float32(1), use_resource=use_resource)
        slot = tf1.get_variable(
            "slot", initializer=np.float32(0), trainable=False, use_resource=use_resource
        )
        with tf.control_dependencies([tf.group(slot.assign(tf.reduce_mean(x)))]):
            update = w.assign(0.5 * w + 0.5 * slot.read_value())
        init = tf1.global_variables_initializer()
    with session(graph) as s:
        s.run(init)
        s.run(update, {x: [1, 2, 3, 4]})
        assert s.learning_tasks == 2


def test_following_another_variable_slowly_is_a_write(use_resource):
    """DDPG's target networks: every learner would do the same."""
    p = linear(use_resource)
    x, y = rows(8)
    with p.graph.as_default():
        target = tf1.get_variable(
            "target", initializer=np.zeros(2, np.float32), use_resource=use_resource
        )
        follow = target.assign(0.5 * p.w + 0.5 * target)
        init = tf1.global_variables_initializer()
    with session(p.graph) as s:
        s.run(init)
        for _ in range(3):
            s.run(p.train, {p.x: x, p.y: y})
            z, before = s.run([p.w, target])
            s.run(follow)
            np.testing.assert_allclose(s.run(target), 0.5 * z + 0.5 * before, rtol=1e-6)
        assert s.learning_tasks == 6


def test_moving_average_alone_is_a_write_of_the_central_model():
    p = linear()
    x, y = rows(8)
    with p.graph.as_default():
        average = tf1.train.ExponentialMovingAverage(0.5)
        update = average.apply([p.w])
        shadow = average.average(p.w)
        init = tf1.global_variables_initializer()
    with session(p.graph) as s:
        s.run(init)
        for _ in range(3):
            s.run(p.train, {p.x: x, p.y: y})
        before, z = s.run([shadow, p.w])
        tasks = s.learning_tasks
        s.run(update)
        assert s.learning_tasks == tasks
        np.testing.assert_allclose(s.run(shadow), (before + z) / 2, rtol=1e-6)


def test_run_kind_overrides_the_classification():
    p = linear()
    x, y = rows(8)
    feeds = {p.x: x, p.y: y}
    with tf1.Session(graph=p.graph) as stock:
        stock.run(p.init)
        stock.run(p.train, feeds)
        expected = stock.run(p.w)
    with session(p.graph, run_kind={p.train: "write"}) as s:
        s.run(p.init)
        s.run(p.train, feeds)
        assert s.learning_tasks == 0
        np.testing.assert_allclose(s.run(p.w), expected, rtol=1e-6)


def test_forced_learning_run_averages_what_a_plain_assignment_writes(use_resource):
    """Algorithm 1 without momentum, in NumPy: c = α(w − z), w ← value − c, z ← z + Σc."""
    alpha = 0.25
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None])
        w = tf1.get_variable("w", initializer=np.float32(0), use_resource=use_resource)
        follow = tf.group(w.assign(tf.reduce_mean(x)), name="follow")
        init = tf1.global_variables_initializer()
    feeds = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)
    z, expected = 0.0, np.zeros(2)
    with session(
        graph,
        synchroniser=tensorbow.EASGD(alpha=alpha),
        run_kind={follow: "learning"},
    ) as s:
        s.run(init)
        for feed in feeds:
            s.run(follow, {x: feed})
            corrections = alpha * (expected - z)
            expected = feed.reshape(2, 4).mean(axis=1) - corrections
            z += corrections.sum()
            np.testing.assert_allclose(s.run(w), z, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(replicas(s, w), expected, rtol=1e-4, atol=1e-6)
        assert s.learning_tasks == 12


def test_forced_learning_run_trains_nothing_but_trainable_floats():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None])
        w = tf1.get_variable("w", initializer=np.float32(0))
        seen = tf1.get_variable("seen", initializer=np.float32(0), trainable=False)
        count = tf1.get_variable("count", initializer=np.int64(0))
        mean = tf.reduce_mean(x)
        note = tf.group(w.assign(mean), seen.assign(mean), count.assign_add(1), name="note")
        init = tf1.global_variables_initializer()
    with session(graph, run_kind={note: "learning"}) as s:
        s.run(init)
        for _ in range(3):
            s.run(note, {x: [1, 2, 5, 6]})
        assert [s.learner_value(seen, j) for j in range(2)] == [1.5, 5.5]
        assert s.run([seen, count]) == [3.5, 3]
        assert abs(s.learner_value(w, 0) - s.learner_value(w, 1)) < 4


def test_several_train_ops_synchronise_only_what_they_update():
    """Two models in one graph, trained in turn (a GAN's shape)."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None])
        a = tf1.get_variable("a", initializer=np.float32(1))
        b = tf1.get_variable("b", initializer=np.float32(2))
        loss = tf.reduce_mean(tf.square(a * x - b))
        optimiser = tf1.train.GradientDescentOptimizer(0.1)
        train_a = optimiser.minimize(loss, var_list=[a])
        train_b = optimiser.minimize(loss, var_list=[b])
        init = tf1.global_variables_initializer()
    batch = np.array([1, 2, 3, 5], np.float32)
    with session(graph) as s:
        s.run(init)
        s.run(train_a, {x: batch})
        s.run(train_a, {x: batch})
        assert s.run(b) == 2
        np.testing.assert_array_equal([s.learner_value(b, j) for j in range(2)], [2, 2])
        a_replicas = [s.learner_value(a, j) for j in range(2)]
        s.run(train_b, {x: batch})
        # Training b left a's replicas and a's average alone.
        assert [s.learner_value(a, j) for j in range(2)] == a_replicas
        assert len({float(s.learner_value(b, j)) for j in range(2)}) == 2


def test_integer_state_is_learner_zeros_and_float_state_the_mean():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None])
        w = tf1.get_variable("w", initializer=np.float32(0))
        seen = tf1.get_variable("seen", initializer=np.float32(0), trainable=False)
        step = tf1.train.get_or_create_global_step()
        note = tf1.assign(seen, tf.reduce_mean(x))
        with tf.control_dependencies([note]):
            train = tf1.train.GradientDescentOptimizer(0.1).minimize(
                tf.reduce_mean(tf.square(w - x)), global_step=step
            )
        init = tf1.global_variables_initializer()
    with session(graph) as s:
        s.run(init)
        s.run(train, {x: [1, 2, 5, 6]})
        assert [s.learner_value(seen, j) for j in range(2)] == [1.5, 5.5]
        assert s.run([seen, step]) == [3.5, 1]
        s.run(train, {x: [1]})  # learner 1 skips it
        assert s.run(step) == 2
        assert [s.learner_value(step, j) for j in range(2)] == [2, 1]
        assert s.samples_seen == 5
        assert s.learning_tasks == 3


def test_slots_are_each_learners_own():
    p = linear(optimiser=lambda: tf1.train.MomentumOptimizer(0.01, 0.9))
    x, y = rows(8)
    with p.graph.as_default():
        slot = next(v for v in tf1.global_variables() if "Momentum" in v.name)
    with session(p.graph) as s:
        s.run(p.init)
        for _ in range(3):
            s.run(p.train, {p.x: x, p.y: y})
        own = replicas(s, slot)
        assert not np.array_equal(*own)
        np.testing.assert_allclose(s.run(slot), np.mean(own, axis=0), rtol=1e-6)


def test_saver_saves_and_restores_the_central_model(tmp_path, use_resource):
    p = linear(use_resource, optimiser=lambda: tf1.train.AdamOptimizer(0.05))
    x, y = rows(8)
    with p.graph.as_default():
        saver = tf1.train.Saver()
        variables = tf1.global_variables()
    with session(p.graph) as s:
        s.run(p.init)
        for _ in range(5):
            s.run(p.train, {p.x: x, p.y: y})
        path = saver.save(s, str(tmp_path / "model"))
        saved = s.run(variables)
        for _ in range(5):
            s.run(p.train, {p.x: x, p.y: y})
        saver.restore(s, path)
        for variable, value in zip(variables, saved):
            for replica in replicas(s, variable):
                np.testing.assert_array_equal(replica, value)
        after = [s.run([p.train, p.loss], {p.x: x, p.y: y})[1] for _ in range(3)]
    # Stock TensorFlow reads the checkpoint, and the other way round.
    with tf1.Session(graph=p.graph) as stock:
        saver.restore(stock, path)
        for value, expected in zip(stock.run(variables), saved):
            np.testing.assert_array_equal(value, expected)
        path = saver.save(stock, str(tmp_path / "stock"))
    with session(p.graph) as s:
        saver.restore(s, path)
        again = [s.run([p.train, p.loss], {p.x: x, p.y: y})[1] for _ in range(3)]
    assert after == again


def test_graph_may_grow_after_the_first_run():
    p = linear()
    x, y = rows(8)
    with session(p.graph) as s:
        s.run(p.init)
        s.run(p.train, {p.x: x, p.y: y})
        with p.graph.as_default():
            b = tf1.get_variable("b", initializer=np.float32(0))
            loss = tf.reduce_mean(tf.square(p.prediction + b - p.y))
            train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        s.run(b.initializer)
        before = s.run([p.w, b])
        for _ in range(3):
            s.run(train, {p.x: x, p.y: y})
        after = s.run([p.w, b])
        assert not np.array_equal(before[0], after[0]) and before[1] != after[1]
        assert s.learning_tasks == 8


def test_uninitialised_variable_is_reported_as_by_stock():
    p = linear()
    x, y = rows(8)
    with session(p.graph) as s:
        with pytest.raises(tf.errors.FailedPreconditionError):
            s.run(p.train, {p.x: x, p.y: y})
        s.run(p.init)
        s.run(p.train, {p.x: x, p.y: y})
        assert s.learning_tasks == 2


def test_plain_target_string_gives_a_session_with_default_options():
    p = linear()
    x, y = rows(8)
    with tf1.Session("tensorbow", graph=p.graph) as s:
        s.run(p.init)
        first = s.run(p.loss, {p.x: x, p.y: y})
        for _ in range(50):
            s.run(p.train, {p.x: x, p.y: y})
        assert s.run(p.loss, {p.x: x, p.y: y}) < first / 2
    with pytest.raises(tf.errors.InvalidArgumentError, match="wanted 'tensorbow'"):
        tf1.Session("tensorbow://nonsense", graph=p.graph)


def test_interactive_session_learns():
    p = linear()
    x, y = rows(8)
    s = tensorbow.InteractiveSession(
        graph=p.graph, options=tensorbow.Options(learners_per_device=2)
    )
    try:
        p.init.run()
        p.train.run({p.x: x, p.y: y})
        assert p.w.eval().shape == (2,)
        assert s.learning_tasks == 2
    finally:
        s.close()
