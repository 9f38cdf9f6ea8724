"""Hooks on a replicated model: the methods that are replaced."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.trainers.data_adapters import array_slicing, data_adapter

from tensorbow.keras import _feeding
from tensorbow.keras._program import Program
from tensorbow.keras._training import TrainingLoop
from tensorbow.keras._variables import Mirror
from tensorbow.options import Options
from tensorbow.session import TensorBowSession

ATTRIBUTE = "_tensorbow"
"""Where a replicated model has its `Replication`."""


class Replication:
    """The hooks and sessions that `replicate` adds to a model.

    Args:
      model: a Keras model; its methods are hooked.
      options: of the session that trains.
    """

    def __init__(self, model: Any, options: Options) -> None:
        self.model = model
        self.options = options
        self._loop = TrainingLoop(model, options)
        self._hook()

    @property
    def num_learners(self) -> int:
        """The number of learners that train the model."""
        return int(self.model.num_learners)

    @property
    def session(self) -> TensorBowSession | None:
        """The session that trains; None before the first training step."""
        return None if self._loop.current is None else self._loop.current.session

    @property
    def program(self) -> Program | None:
        """The training step for the data in use; None before the first one."""
        return self._loop.program

    @property
    def _mirror(self) -> Mirror | None:
        return None if self._loop.current is None else self._loop.current.mirror

    def _hook(self) -> None:
        """Replaces methods of the model by ones that bring the variables up to date."""
        model = self.model
        replacements: dict[str, Callable[..., Any]] = {
            "compile": self._compile,
            "fit": self._fit,
            "make_train_function": self._make_train_function,
            "make_test_function": functools.partial(self._make_eval_function, "make_test_function"),
            "make_predict_function": functools.partial(
                self._make_eval_function, "make_predict_function"
            ),
            "_get_metrics_result_or_logs": self._epoch_logs,
        }
        self._stock: dict[str, Any] = {name: getattr(model, name) for name in replacements}
        for name, replacement in replacements.items():
            hook = functools.partial(replacement)
            object.__setattr__(model, name, functools.wraps(self._stock[name])(hook))
        if model.compiled:
            self._install()

    def unhook(self) -> None:
        """Makes the model a stock one again, with the central model's weights."""
        for name in self._stock:
            object.__delattr__(self.model, name)
        self._loop.close()
        if self.model.compiled:
            self.model.train_function = None

    def learner_value(self, variable: Any, learner: int) -> np.ndarray:
        """Returns a learner's value; see `tensorbow.keras.learner_value`."""
        if not 0 <= learner < self.num_learners:
            raise ValueError(
                f"learner_value: learner must be from 0 to {self.num_learners - 1}, got {learner}"
            )
        if self._loop.current is None:
            return variable.numpy()
        return self._loop.current.learner_value(variable, learner)

    # ------------------------------------------------------------------ replacements

    def _compile(self, *args: Any, **kwargs: Any) -> None:
        self._stock["compile"](*args, **kwargs)
        self._install()

    def _install(self) -> None:
        """Makes the model train on learners, after compile()."""
        model = self.model
        self._loop.reset()
        reason = None
        if model.run_eagerly:
            reason = "it was compiled with run_eagerly=True"
        elif tf.distribute.has_strategy() or model._distribute_strategy is not None:
            reason = "it belongs to a tf.distribute strategy"
        elif type(model).make_train_function is not keras.Model.make_train_function:
            reason = f"{type(model).__name__} overrides make_train_function"
        if reason is not None:
            self._loop.warn_stock(reason)
            return
        model.train_function = self._loop.train

    @property
    def _is_installed(self) -> bool:
        return bool(self.model.train_function == self._loop.train)

    def _make_train_function(self, force: bool = False) -> Any:
        if self.model.train_function is None or (force and not self._is_installed):
            return self._stock["make_train_function"](force)
        return self.model.train_function

    def _make_eval_function(self, name: str, force: bool = False) -> Any:
        made = self._stock[name](force)
        # Functions that are traced already read and write variables without the mirror.
        if self._mirror is not None:
            self._mirror.pull()
            self._mirror.mark_all_dirty()
        return made

    def _epoch_logs(self, logs: Any) -> Any:
        # Callbacks come next; they may hold functions that are traced already.
        if self._mirror is not None:
            self._mirror.pull()
        return self._stock["_get_metrics_result_or_logs"](logs)

    def _fit(self, *args: Any, **kwargs: Any) -> Any:
        """Trains as fit() does, but arrays in memory do not go through tf.data."""
        stock = self._stock["fit"]
        overridden = type(self.model).fit is not keras.Model.fit
        if overridden or not self._is_installed:
            return stock(*args, **kwargs)
        try:
            call = inspect.signature(keras.Model.fit).bind(self.model, *args, **kwargs)
        except TypeError:  # Keras reports wrong calls
            return stock(*args, **kwargs)
        call.apply_defaults()
        given = call.arguments
        if isinstance(given["x"], data_adapter.DataAdapter):
            return stock(*args, **kwargs)
        _take_arrays(given)
        given.pop("self")
        try:
            return stock(**given)
        finally:
            self._loop.forget_iterator()


def _take_arrays(given: dict[str, Any]) -> None:
    """Replaces arrays among the arguments of fit() by `ArrayBatches`."""
    if given["validation_split"] and given["validation_data"] is None:
        arrays = (given["x"], given["y"], given["sample_weight"])
        (given["x"], given["y"], given["sample_weight"]), given["validation_data"] = (
            array_slicing.train_validation_split(arrays, given["validation_split"])
        )
        given["validation_split"] = 0.0
    batches = _feeding.array_batches(
        given["x"],
        given["y"],
        given["sample_weight"],
        given["class_weight"],
        given["batch_size"],
        given["steps_per_epoch"],
        given["shuffle"],
    )
    if batches is not None:
        given["x"], given["y"], given["sample_weight"] = batches, None, None
        given["class_weight"] = None


def replication_of(model: Any) -> Replication | None:
    """Returns the `Replication` of a model, if it has one."""
    found = getattr(model, "__dict__", {}).get(ATTRIBUTE)
    return found if isinstance(found, Replication) else None
