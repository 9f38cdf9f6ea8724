"""Programs whose state is saved: all state that a training step may keep from run to run."""

from __future__ import annotations

import types

import numpy as np
import tensorflow as tf

import tensorbow

tf1 = tf.compat.v1

ROWS, COLUMNS = 12, 5


def network(optimiser=None, use_resource=True, dropout=True):
    """Makes a small network with dropout, batch statistics, a schedule and a global step."""
    p = types.SimpleNamespace(graph=tf.Graph())
    with p.graph.as_default():
        tf1.set_random_seed(7)
        p.x = tf1.placeholder(tf.float32, [None, COLUMNS], name="x")
        p.y = tf1.placeholder(tf.float32, [None], name="y")
        p.step = tf1.train.get_or_create_global_step()
        with tf1.variable_scope("net", use_resource=use_resource):
            weights = tf1.get_variable("w", [COLUMNS, 8])
            bias = tf1.get_variable("b", [8], initializer=tf1.zeros_initializer())
            last = tf1.get_variable("v", [8])
            mean = tf1.get_variable(
                "mean", [8], initializer=tf1.zeros_initializer(), trainable=False
            )
        hidden = tf.matmul(p.x, weights) + bias
        track = tf1.assign(mean, 0.9 * mean + 0.1 * tf.reduce_mean(hidden, 0))
        hidden = tf.nn.relu(hidden - mean)
        if dropout:
            hidden = tf1.nn.dropout(hidden, rate=0.3, seed=3)
            hidden += tf1.random.normal(tf.shape(hidden), stddev=0.01)
        p.loss = tf.reduce_mean(tf.square(tf.linalg.matvec(hidden, last) - p.y))
        rate = tf1.train.exponential_decay(0.05, p.step, 50, 0.9)
        optimiser = optimiser(rate) if optimiser else tf1.train.GradientDescentOptimizer(rate)
        with tf.control_dependencies([track]):
            p.train = optimiser.minimize(p.loss, global_step=p.step, name="train")
        p.init = tf1.global_variables_initializer()
        p.variables = tf1.global_variables()
        p.saver = tf1.train.Saver()
    return p


def session(program, learners=2, **options):
    """Makes a session on the program's graph."""
    return tensorbow.TensorBowSession(
        graph=program.graph, options=tensorbow.Options(learners_per_device=learners, **options)
    )


def step(program, sess, index):
    """Trains on batch number `index`; returns the loss."""
    random = np.random.default_rng(index)
    x = random.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    feeds = {program.x: x, program.y: x @ np.linspace(-1, 1, COLUMNS).astype(np.float32)}
    return sess.run([program.train, program.loss], feeds)[1]
