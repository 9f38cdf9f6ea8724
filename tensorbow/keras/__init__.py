"""Keras models that train on several learners.

`replicate(model)` is all there is to it; everything else stays as it is written:

    model = tensorbow.keras.replicate(keras.Sequential([...]))
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x, y, batch_size=32, epochs=5, validation_data=(x_test, y_test))

`batch_size` is the number of rows of a step, as in Keras alone. With two learners,
`batch_size=32` trains on 16 rows on each.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import keras
import numpy as np
from tensorflow import __version__ as _tensorflow

from tensorbow._runtime import loader as _loader

_loader.check_keras_version(keras.__version__, _tensorflow)

from tensorbow._runtime.messages import suggests_names
from tensorbow.adaptive import AdaptiveSGD
from tensorbow.keras._replication import ATTRIBUTE, Replication, replication_of
from tensorbow.keras.callbacks import MetricsCallback
from tensorbow.options import Options
from tensorbow.session import TensorBowSession
from tensorbow.synchronisers import SSGD

__all__ = ["MetricsCallback", "learner_value", "replicate", "session_of"]


Model = TypeVar("Model")


@suggests_names(*(field.name for field in dataclasses.fields(Options)))
def replicate(model: Model, options: Options | None = None) -> Model:
    """Makes a Keras model train on several learners.

    The model is changed in place: from now on `fit` and `train_on_batch` run its own
    `train_step` on every learner, each on a replica and rows of its own. What keeps the
    replicas together is `options.synchroniser`; by default ("auto") that is `SSGD()`, which
    makes the step of stock Keras, to rounding, whatever its optimiser, losses and metrics. A
    step that cannot be divided so is executed by one learner, after a `TensorBowWarning`.
    Whatever looks at the model
    (callbacks, `evaluate`, `predict`, `get_weights`, `save`) sees the central model. A
    saved file is plain Keras's and loads without TensorBow.

    `batch_size` means what it means in Keras alone: `fit(..., batch_size=32)` trains on 32
    rows a step, which are divided evenly among the learners; so are those of every element
    of a `tf.data.Dataset`, a `PyDataset` or a generator, and of `train_on_batch`. With
    `Options(batch_size=b)` they are cut into tasks of b rows, handed out first come, first
    served. Learning rates are never rescaled.

    Args:
      model: a `keras.Model` of Keras 3 on the TensorFlow backend: Sequential, Functional
        or subclassed, with any `train_step`, compiled or not.
      options: a `tensorbow.Options`; None for the defaults. `shard`, `replicate`,
        `combine`, `elements` and `run_kind` speak of graphs that the model does not show and
        must be left out.

    Returns:
      The same model, with a new attribute `num_learners`. If `options` leaves the number open,
      averages gradients and has no seed, training measures its own steps and takes the fastest
      number; the attribute follows. There are fewer learners, after a `TensorBowWarning`, if
      there is not memory enough for them. A model that cannot become a
      graph (`run_eagerly=True`, sparse or ragged batches, lookup tables in the model)
      trains as stock Keras does, after a `TensorBowWarning` that says why.

    Raises:
      TypeError: if `model` is not a Keras model, or `options` not an `Options`.
      ValueError: for options that a Keras model cannot have, or another Keras backend.

    Example:
      >>> model = tensorbow.keras.replicate(keras.Sequential([keras.layers.Dense(10)]))
      >>> model.compile("sgd", "mse")
      >>> model.fit(x, y, batch_size=32)
    """
    if not isinstance(model, keras.Model):
        raise TypeError(f"replicate: model must be a keras.Model, got {model!r}")
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            f"replicate: Keras uses the {keras.backend.backend()!r} backend; TensorBow wants "
            '"tensorflow" (environment variable KERAS_BACKEND, before Keras is imported)'
        )
    if options is None:
        options = Options()
    if not isinstance(options, Options):
        raise TypeError(f"replicate: options must be a tensorbow.Options, got {options!r}")
    for name in ("shard", "replicate", "combine", "elements", "run_kind"):
        if getattr(options, name):
            raise ValueError(
                f"replicate: options has {name}={getattr(options, name)!r}, which speaks of "
                "a graph; a Keras model shows none. Leave it out"
            )
    averages_gradients = isinstance(options.synchroniser, (str, SSGD))
    if options.tunes_learners and not averages_gradients:
        raise ValueError(
            'replicate: options has learners_per_device="auto", which is for averaged gradients in '
            f"Keras models; got synchroniser={options.synchroniser!r}. Give a number, or None"
        )
    if isinstance(options.synchroniser, AdaptiveSGD):
        raise ValueError(
            "replicate: AdaptiveSGD is for sessions; a Keras model is trained one batch at a time. "
            "Use SMA() or SSGD()"
        )
    options.check_learners(0)
    earlier = replication_of(model)
    if earlier is not None:
        earlier.unhook()
    replication = Replication(model, options)
    object.__setattr__(model, ATTRIBUTE, replication)
    return model


def session_of(model: Any) -> TensorBowSession | None:
    """Returns the session that trains a replicated model.

    It tells how far training is (`iterations`, `learning_tasks`, `samples_seen`) and what
    keeps the learners together (`synchroniser`), and can `restart()` the averaging. Every
    `compile` ends it; the next training step makes a new one.

    Args:
      model: what `replicate` returned.

    Returns:
      None before the first training step, and for models that train as stock Keras.

    Raises:
      ValueError: if the model is not replicated.
    """
    return _replication(model).session


def learner_value(model: Any, variable: Any, learner: int) -> np.ndarray:
    """Returns a copy of one learner's own value of a variable.

    Args:
      model: what `replicate` returned.
      variable: a `keras.Variable` of the model, its optimiser or its metrics.
      learner: 0 <= learner < model.num_learners.

    Returns:
      An array of the variable's dtype and shape; before the first training step that
      uses the variable, its central value.

    Raises:
      ValueError: if the model is not replicated, or there is no such learner.
    """
    return _replication(model).learner_value(variable, learner)


def _replication(model: Any) -> Replication:
    replication = replication_of(model)
    if replication is None:
        raise ValueError(
            f"{model!r} is not replicated; wanted what tensorbow.keras.replicate returned"
        )
    return replication
