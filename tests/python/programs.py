"""Small programs that the tests share: linear regression, with different kinds of feeds."""

from __future__ import annotations

import contextlib
import types

import numpy as np
import tensorflow as tf

import tensorbow

tf1 = tf.compat.v1


@contextlib.contextmanager
def control_flow(version):
    """Sets the control flow of TensorFlow 1 or 2."""
    before = tf1.control_flow_v2_enabled()
    (tf1.enable_control_flow_v2 if version == 2 else tf1.disable_control_flow_v2)()
    try:
        yield
    finally:
        (tf1.enable_control_flow_v2 if before else tf1.disable_control_flow_v2)()


def session(graph, learners=2, **options):
    """Makes a session on `graph` with that many learners whose models are averaged."""
    options.setdefault("synchroniser", tensorbow.SMA())
    return tensorbow.TensorBowSession(
        graph=graph, options=tensorbow.Options(learners_per_device=learners, **options)
    )


def session_of_parts(graph, learners=2, **options):
    """Makes a session for programs that are fed one entry for every learner.

    A learner computes from its part alone, which no row type states.
    """
    return session(graph, learners, **({"proof": "off"} | options))


def linear(use_resource=True, optimiser=None, columns=2):
    """Makes y ≈ x·w with placeholders x [rows, columns] and y [rows].

    The loss is linear in nothing but the rows' squared errors. So its mean over shards, weighted
    by rows, is its mean over all rows.
    """
    p = types.SimpleNamespace(graph=tf.Graph())
    with p.graph.as_default():
        p.x = tf1.placeholder(tf.float32, [None, columns], name="x")
        p.y = tf1.placeholder(tf.float32, [None], name="y")
        p.w = tf1.get_variable(
            "w",
            initializer=np.linspace(0.1, 0.5, columns).astype(np.float32),
            use_resource=use_resource,
        )
        p.step = tf1.train.get_or_create_global_step()
        p.prediction = tf.linalg.matvec(p.x, p.w, name="prediction")
        p.error = tf.subtract(p.prediction, p.y, name="error")
        p.loss = tf.reduce_mean(tf.square(p.error), name="loss")
        optimiser = optimiser() if optimiser else tf1.train.GradientDescentOptimizer(0.05)
        p.train = optimiser.minimize(p.loss, global_step=p.step, name="train")
        p.init = tf1.global_variables_initializer()
    return p


def rows(count, columns=2, seed=0):
    """Returns inputs and targets of a linear law with noise."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((count, columns)).astype(np.float32)
    y = (x @ np.arange(1, columns + 1) + 0.1 * random.standard_normal(count)).astype(np.float32)
    return x, y
