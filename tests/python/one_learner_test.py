"""One learner computes the bits of a stock session on one thread."""

import numpy as np
import pytest
import tensorflow as tf

import tensorbow
from tensorbow import models

tf1 = tf.compat.v1

OPTIMISERS = {
    "sgd": lambda: tf1.train.GradientDescentOptimizer(0.05),
    "momentum": lambda: tf1.train.MomentumOptimizer(0.02, 0.9),
    "adam": lambda: tf1.train.AdamOptimizer(0.002),
}


def train(session, program, images, labels, steps, rows):
    session.run(program.init)
    for step in range(steps):
        begin = step * rows % (len(images) - rows)
        batch = {
            program.images: images[begin : begin + rows],
            program.labels: labels[begin : begin + rows],
        }
        session.run(program.train_op, batch)
    with program.graph.as_default():
        return session.run(tf1.global_variables())


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "reference"])
@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("model", ["logistic", "lenet"])
def test_every_weight_equals_stock_after_200_steps(
    model, optimiser, use_resource, digits, one_thread
):
    images, labels = digits
    program = models.build(
        model,
        images.shape[1:],
        optimiser=OPTIMISERS[optimiser],
        seed=7,
        use_resource=use_resource,
    )
    with tf1.Session(graph=program.graph, config=one_thread) as stock:
        expected = train(stock, program, images, labels, steps=200, rows=16)
    options = tensorbow.Options(learners_per_device=1)
    with tensorbow.TensorBowSession(
        graph=program.graph, config=one_thread, options=options
    ) as session:
        actual = train(session, program, images, labels, steps=200, rows=16)
        assert session.learning_tasks == 200
        assert session.samples_seen == 200 * 16
    assert len(actual) == len(expected) > 1
    for a, e in zip(actual, expected):
        np.testing.assert_array_equal(a, e)


def test_batch_norm_statistics_equal_stock(digits, one_thread):
    images = np.repeat(np.repeat(digits[0], 2, axis=1), 2, axis=2)
    program = models.build("resnet20", images.shape[1:], seed=3)
    with tf1.Session(graph=program.graph, config=one_thread) as stock:
        expected = train(stock, program, images, digits[1], steps=5, rows=8)
    options = tensorbow.Options(learners_per_device=1)
    with tensorbow.TensorBowSession(
        graph=program.graph, config=one_thread, options=options
    ) as session:
        actual = train(session, program, images, digits[1], steps=5, rows=8)
    for a, e in zip(actual, expected):
        np.testing.assert_array_equal(a, e)


def blocked_times():
    """Returns how often this thread has waited."""
    with open("/proc/thread-self/status") as status:
        (line,) = [line for line in status if line.startswith("voluntary_ctxt_switches")]
    return int(line.split()[1])


def test_an_asynchronous_operation_goes_on_where_it_was_called(one_thread):
    """Loops of 1.x store values for their gradients by operations that could wait, but do not."""
    steps = 300
    tf1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default():
            x = tf1.placeholder(tf.float32, [None, 2])
            w = tf1.get_variable("w", [2], initializer=tf1.ones_initializer())
            _, h = tf1.while_loop(
                lambda i, _: i < steps, lambda i, h: (i + 1, tf.tanh(h * w)), [0, x]
            )
            loss = tf.reduce_sum(h, name="loss")
            train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
            init = tf1.global_variables_initializer()
            types = {op.type for op in tf1.get_default_graph().get_operations()}
            rows = {x: np.full([4, 2], 0.5, np.float32)}
            weights = []
            for options in (None, tensorbow.Options(learners_per_device=1)):
                stock = options is None
                with (
                    tf1.Session() if stock else tensorbow.TensorBowSession(options=options) as sess
                ):
                    sess.run(init)
                    sess.run(train_op, rows)
                    before = blocked_times()
                    for _ in range(10):
                        sess.run(train_op, rows)
                    waited = blocked_times() - before
                    weights.append(sess.run(w))
    finally:
        tf1.enable_control_flow_v2()
    assert {"StackPushV2", "StackPopV2"} <= types
    # This thread waits for the graph, not for each of its pushes and pops.
    assert waited < steps
    np.testing.assert_array_equal(*weights)
