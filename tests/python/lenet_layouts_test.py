"""LeNet while the number of learners changes forty times, against NumPy and stock gradients."""

import numpy as np
import pytest
import tensorflow as tf
from sma_model import StockGradients

import tensorbow
from tensorbow import models

tf1 = tf.compat.v1

RATE, MOMENTUM, ROWS, CHANGES = 0.01, 0.9, 12, 40
SYNCHRONISERS = {"sma": tensorbow.SMA(), "ssgd": tensorbow.SSGD()}


class Learners:
    """Replicas w_j and slots m_j of heavy-ball learners in float64; their mean is z."""

    def __init__(self, initial, averages_gradients):
        self.w = [[v.astype(np.float64) for v in initial]]
        self.m = [[np.zeros_like(v) for v in self.w[0]]]
        self.averages_gradients = averages_gradients

    @property
    def z(self):
        return [np.mean(values, axis=0) for values in zip(*self.w)]

    def change(self, count):
        """Starts replicas from z. Remaining learners keep their slots, new ones get learner 0's; a
        lone learner's are the mean."""
        kept = self.m[:count]
        if count == 1:
            kept = [[np.mean(values, axis=0) for values in zip(*self.m)]]
        while len(kept) < count:
            kept.append([v.copy() for v in kept[0]])
        self.m = kept
        z = self.z
        self.w = [[v.copy() for v in z] for _ in range(count)]

    def iteration(self, gradients_of, shards):
        """Executes one task of every learner."""
        z = self.z
        gradients = [gradients_of(w, *shard) for w, shard in zip(self.w, shards)]
        if self.averages_gradients:
            mean = [np.mean(values, axis=0) for values in zip(*gradients)]
            gradients = [mean] * len(self.w)
        for w, m, g in zip(self.w, self.m, gradients):
            for i in range(len(z)):
                m[i] = MOMENTUM * m[i] + g[i]
                w[i] = w[i] - RATE * m[i] - (w[i] - z[i]) / len(self.w)


@pytest.mark.parametrize("synchroniser", SYNCHRONISERS)
def test_lenet_while_learners_come_and_go(digits, synchroniser):
    images, labels = digits
    program = models.build(
        "lenet", images.shape[1:], 10, lambda: tf1.train.MomentumOptimizer(RATE, MOMENTUM), seed=1
    )
    gradients = StockGradients(program)
    variables = gradients.variables
    random = np.random.default_rng(4)
    options = tensorbow.Options(
        learners_per_device=1, synchroniser=SYNCHRONISERS[synchroniser], proof="off"
    )
    with tensorbow.TensorBowSession(graph=program.graph, options=options) as session:
        session.run(program.init)
        model = Learners(session.run(variables), synchroniser == "ssgd")
        for _ in range(CHANGES):
            count = int(random.choice([1, 2, 3, 4]))
            session.set_learners(count)
            if count != len(model.w):  # otherwise nothing happens
                model.change(count)
            rows = random.choice(len(images), ROWS, replace=False)
            fed = images[rows], labels[rows]
            shards = list(zip(*(np.split(values, count) for values in fed)))
            model.iteration(gradients, shards)
            session.run(program.train_op, dict(zip((program.images, program.labels), fed)))
            for value, expected in zip(session.run(variables), model.z):
                np.testing.assert_allclose(value, expected, rtol=1e-5, atol=2e-6)
            # Values that round to the other side of a maximum would grow from here on.
            model.w = [
                [session.learner_value(v, j).astype(np.float64) for v in variables]
                for j in range(count)
            ]
    gradients.close()
