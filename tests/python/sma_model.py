"""Synchronous model averaging in NumPy float64: around the replicas' present mean, and as in
CROSSBOW (VLDB 2019, section 3).

Nothing here knows of TensorBow. Gradients come from a stock TensorFlow session, which is given one
learner's weights at a time.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from stock_sessions import loader

tf1 = tf.compat.v1


class StockGradients:
    """Gradients of a program's loss at given weights, by a stock session."""

    def __init__(self, program, config=None):
        with program.graph.as_default():
            self.variables = tf1.trainable_variables()
            gradients = tf.gradients(program.loss, self.variables)
        self._session = tf1.Session(graph=program.graph, config=config)
        self._session.run(program.init)
        self._load = loader(self.variables, self._session)
        self._gradients = self._session.make_callable(gradients, [program.images, program.labels])

    def __call__(self, weights, images, labels):
        self._load(*(w.astype(v.dtype.as_numpy_dtype) for v, w in zip(self.variables, weights)))
        return [g.astype(np.float64) for g in self._gradients(images, labels)]

    def close(self):
        self._session.close()


def heavy_ball(momentum):
    """Updates a ← μ·a + g; the update is −γ·a. With μ = 0 gradient descent."""

    def update(slots, gradient, rate):
        slots["a"] = momentum * slots.get("a", 0.0) + gradient
        return -rate * slots["a"]

    return update


def sparse_heavy_ball(momentum):
    """Updates the rows that have a gradient; others keep their slots and do not move."""

    def update(slots, gradient, rate):
        used = np.any(gradient != 0, axis=-1, keepdims=True)
        a = slots.get("a", np.zeros_like(gradient))
        slots["a"] = np.where(used, momentum * a + gradient, a)
        return np.where(used, -rate * slots["a"], 0.0)

    return update


def adam():
    """Updates with β1 = 0.9, β2 = 0.999, ε = 1e-8, which TensorFlow keeps in float32, with the
    powers.

    Rows without a gradient decay and move as others do.
    """
    betas = np.float32(0.9), np.float32(0.999)
    beta1, beta2 = map(np.float64, betas)

    def update(slots, gradient, rate):
        powers = slots["powers"] = [p * b for p, b in zip(slots.get("powers", (1, 1)), betas)]
        slots["m"] = beta1 * slots.get("m", 0.0) + (1 - beta1) * gradient
        slots["v"] = beta2 * slots.get("v", 0.0) + (1 - beta2) * gradient**2
        power1, power2 = map(np.float64, powers)
        rate = rate * np.sqrt(1 - power2) / (1 - power1)
        return -rate * slots["m"] / (np.sqrt(slots["v"]) + np.float64(np.float32(1e-8)))

    return update


def adagrad(initial=0.1):
    """Updates a ← a + g²; the update is −γ·g/√a: nothing without a gradient."""

    def update(slots, gradient, rate):
        slots["a"] = slots.get("a", initial) + gradient**2
        return -rate * gradient / np.sqrt(slots["a"])

    return update


class SMAModel:
    """L replicas, the central model, and one optimiser (by default SGD, with or without
    momentum).

    `centre` "current" is synchronous model averaging around the replicas' mean, "lagging"
    CROSSBOW's Algorithm 1.
    """

    def __init__(
        self,
        initial,
        num_learners,
        learning_rate,
        optimiser_momentum=0.0,
        centre="current",
        alpha=None,
        momentum=0.0,
        sync_period=1,
        optimiser=None,
    ):
        self.z = [v.astype(np.float64) for v in initial]
        self.z_prev = [v.copy() for v in self.z]
        self.w = [[v.copy() for v in self.z] for _ in range(num_learners)]
        self.slots = [[{} for _ in self.z] for _ in range(num_learners)]
        self.present = set(range(num_learners))  # in the last iteration
        self.learning_rate = learning_rate
        self.optimiser = optimiser or heavy_ball(optimiser_momentum)
        self.centre = centre
        self.alpha = 1 / num_learners if alpha is None else alpha
        self.momentum = momentum
        self.sync_period = sync_period
        self.iterations = 0

    def iteration(self, gradients_of, batches):
        """Executes one learning task of every learner that has a batch (None: it skips the
        iteration)."""
        self.iterations += 1
        synchronise = self.iterations % self.sync_period == 0
        active = {j for j, batch in enumerate(batches) if batch is not None}
        for j in active - self.present:  # it has missed the last iteration
            self.w[j] = [v.copy() for v in self.z]
        corrections = [np.zeros_like(v) for v in self.z]
        for j in sorted(active):
            gradients = gradients_of(self.w[j], *batches[j])
            for i, g in enumerate(gradients):
                update = self.optimiser(self.slots[j][i], g, self.learning_rate)
                c = self.alpha * (self.w[j][i] - self.z[i]) if synchronise else 0.0
                self.w[j][i] = self.w[j][i] + update - c
                corrections[i] = corrections[i] + c
        self.present = active
        if self.centre == "current":
            self.z = [
                np.mean([self.w[j][i] for j in sorted(active)], axis=0) for i in range(len(self.z))
            ]
        elif synchronise:
            for i, c in enumerate(corrections):
                z_next = self.z[i] + c + self.momentum * (self.z[i] - self.z_prev[i])
                self.z_prev[i], self.z[i] = self.z[i], z_next

    def restart(self):
        """Sets replicas to z; the central momentum is forgotten, slots are kept."""
        self.z_prev = [v.copy() for v in self.z]
        self.w = [[v.copy() for v in self.z] for _ in self.w]
        self.present = set(range(len(self.w)))
