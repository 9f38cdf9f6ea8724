"""A program with a table, of which each step uses some rows."""

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1

WORDS, WIDTH, LENGTH = 5_000, 12, 6


class Program:
    """Two classes of short texts: a table of words, their mean, a linear layer."""

    def __init__(self, use_resource, dtype=tf.float32, optimiser=None, rate=0.01):
        self.graph = tf.Graph()
        with self.graph.as_default():
            random = np.random.default_rng(0)
            self.words = tf1.placeholder(tf.int32, [None, LENGTH])
            self.targets = tf1.placeholder(dtype, [None])
            self.table = tf1.get_variable(
                "table",
                initializer=tf.constant(random.standard_normal((WORDS, WIDTH)) / 4, dtype),
                use_resource=use_resource,
            )
            layer = tf1.get_variable(
                "layer",
                initializer=tf.constant(random.standard_normal((WIDTH, 1)), dtype),
                use_resource=use_resource,
            )
            mean = tf.reduce_mean(tf.gather(self.table, self.words), 1)
            errors = tf.squeeze(mean @ layer, 1) - self.targets
            self.loss = tf.reduce_mean(tf.square(errors))
            self.rate = tf1.placeholder_with_default(tf.constant(rate, dtype), None)
            optimiser = optimiser or tf1.train.AdamOptimizer
            with tf1.variable_scope("", use_resource=use_resource):
                self.optimiser = optimiser(self.rate)
                self.train = self.optimiser.minimize(self.loss)
            self.init = tf1.global_variables_initializer()
            self.variables = tf1.global_variables()

    def feeds(self, step, rows=16):
        random = np.random.default_rng(step)
        words = random.integers(0, WORDS, (rows, LENGTH))
        words[:, 1] = words[:, 0]  # twice in a row
        words[0, :2] = [0, WORDS - 1]
        targets = random.standard_normal(rows)
        return {self.words: words, self.targets: targets}
