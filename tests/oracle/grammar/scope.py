"""The scope of a drawn program: placeholders, weights and state that its parts share."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.oracle.grammar import feeds

tf1 = tf.compat.v1


class Scope:
    """A graph under construction.

    Attributes:
      placeholders: those that the parts have asked for, by name.
      weights: trainable variables, by name.
      before, after: updates before and after the training step.
      values: tensors that a run may fetch, by name.
      step: the global step.
    """

    def __init__(self, variables: str) -> None:
        self.resource = variables == "resource"
        self.placeholders: dict[str, Any] = {}
        self.weights: dict[str, Any] = {}
        self.before: list[Any] = []
        self.after: list[Any] = []
        self.values: dict[str, Any] = {}
        self._random = np.random.default_rng(3)
        self._names: dict[str, int] = {}
        with self.kind_of_variables():
            self.step = tf1.train.get_or_create_global_step()
        self.real_step = tf.cast(self.step, tf.float64)

    def kind_of_variables(self) -> Any:
        """A variable scope in which new variables are of the program's kind."""
        return tf1.variable_scope(tf1.get_variable_scope(), use_resource=self.resource)

    def feed(self, name: str) -> Any:
        """Returns the placeholder of that name."""
        if name not in self.placeholders:
            dtype, shape = feeds.FEEDS[name]
            with tf.init_scope():  # outside conditionals
                self.placeholders[name] = tf1.placeholder(dtype, shape, name=name)
        return self.placeholders[name]

    def bag(self) -> Any:
        """Returns the placeholder of sparse rows."""
        return self.sparse("bag")

    def sparse(self, name: str) -> Any:
        """Returns the sparse placeholder of that name."""
        if name not in self.placeholders:
            dtype = tf.int64 if name == "bag_ids" else tf.float64
            shape = [None, feeds.FEATURES]
            self.placeholders[name] = tf1.sparse_placeholder(dtype, shape, name=name)
        return self.placeholders[name]

    def weight(self, name: str, *shape: int) -> Any:
        """Makes a trainable variable."""
        value = 0.5 * self._random.standard_normal(shape)
        variable = self.state(name, value, trainable=True)
        self.weights[variable.op.name] = variable
        return variable

    def state(self, name: str, value: Any, trainable: bool = False) -> Any:
        """Makes a variable; the type of its value is float64 unless the array has another."""
        number = self._names[name] = self._names.get(name, -1) + 1
        return tf1.get_variable(
            f"{name}_{number}" if number else name,
            initializer=np.asarray(value),
            trainable=trainable,
            use_resource=self.resource,
        )

    @property
    def rows(self) -> Any:
        """Returns the number of rows of the batch."""
        return tf.shape(self.feed("y"))[0]
