"""Averaging under adaptive optimisers, dense and with gradients of some rows, against NumPy."""

import numpy as np
import pytest
import tensorflow as tf
from sma_model import SMAModel, adagrad, adam, heavy_ball, sparse_heavy_ball
from stock_sessions import loader
from text_programs import Program

import tensorbow
from tests.python.divided_programs import in_turn

tf1 = tf.compat.v1

RATE = 0.03
OPTIMISERS = {
    "sgd": (tf1.train.GradientDescentOptimizer, heavy_ball(0.0)),
    "momentum": (lambda rate: tf1.train.MomentumOptimizer(rate, 0.9), sparse_heavy_ball(0.9)),
    "adam": (tf1.train.AdamOptimizer, adam()),
    "adagrad": (tf1.train.AdagradOptimizer, adagrad()),
}
SYNCHRONISERS = {
    "current": tensorbow.SMA(),
    "lagging": tensorbow.SMA(centre="lagging", momentum=0.5),
}
TOLERANCE = dict(rtol=1e-5, atol=1e-9)


class Gradients:
    """Gradients of all trained variables, dense, by a stock session."""

    def __init__(self, program):
        with program.graph.as_default():
            self.variables = tf1.trainable_variables()
            gradients = tf.gradients(program.loss, self.variables)
            gradients = [tf.convert_to_tensor(g) for g in gradients]
        self._session = tf1.Session(graph=program.graph)
        self._session.run(program.init)
        self._load = loader(self.variables, self._session)
        self._gradients = self._session.make_callable(gradients, [program.words, program.targets])

    def __call__(self, weights, words, targets):
        self._load(*weights)
        return self._gradients(words, targets)

    def close(self):
        self._session.close()


@pytest.mark.parametrize(
    "optimiser, synchroniser, learners, use_resource",
    in_turn(OPTIMISERS, SYNCHRONISERS, [(2, True), (3, False), (4, True), (3, True), (2, False)]),
)
def test_replicas_and_z_after_20_iterations(optimiser, synchroniser, learners, use_resource):
    of_tensorflow, formula = OPTIMISERS[optimiser]
    sma = SYNCHRONISERS[synchroniser]
    program = Program(use_resource, tf.float64, of_tensorflow, RATE)
    gradients = Gradients(program)
    options = tensorbow.Options(learners_per_device=learners, synchroniser=sma)
    with tensorbow.TensorBowSession(graph=program.graph, options=options) as session:
        session.run(program.init)
        model = SMAModel(
            session.run(gradients.variables),
            learners,
            RATE,
            centre=sma.centre,
            momentum=sma.momentum or 0.0,
            optimiser=formula,
        )
        rows = 6
        for step in range(20):
            feeds = program.feeds(step, learners * rows)
            session.run(program.train, feeds)
            words, targets = feeds.values()
            parts = [slice(j * rows, (j + 1) * rows) for j in range(learners)]
            model.iteration(gradients, [(words[part], targets[part]) for part in parts])
        assert session.learning_tasks == 20 * learners
        assert all(np.abs(a - b).max() > 0 for a, b in zip(model.w[0], model.w[-1]))
        for i, variable in enumerate(gradients.variables):
            np.testing.assert_allclose(session.run(variable), model.z[i], **TOLERANCE)
            for j in range(learners):
                value = session.learner_value(variable, j)
                np.testing.assert_allclose(value, model.w[j][i], **TOLERANCE)
    gradients.close()
