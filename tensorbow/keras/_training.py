"""Keras's training loop on TensorBow's learners."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.trainers.data_adapters import array_slicing, data_adapter

from tensorbow.keras import _feeding, _tracing, _variables
from tensorbow.options import Options
from tensorbow.session import TensorBowSession, TensorBowWarning
from tensorbow.synchronisers import EASGD, SMA, SSGD

_CENTRAL_MOMENTUM = 0.9  # where the learners' optimiser has none (ALGORITHMS: μ)
# How the session begins when it says that learners cannot run a step.
_ONE_LEARNER = "A learning run is executed by one learner only"
_STRONG = 0.9  # momentum of which there should not be two
_DROP = 0.5  # of the learning rate, that restarts the averaging


class Replication:
    """What `replicate` adds to a model.

    Args:
      model: a Keras model; its methods are hooked.
      options: of the session that trains.
    """

    def __init__(self, model: Any, options: Options) -> None:
        self.model = model
        self.options = options
        self.num_learners = options.learners_on(0)
        self.session: TensorBowSession | None = None
        self._mirror: _variables.Mirror | None = None
        self._programs: dict[str, _tracing.Program] = {}
        self._specs: dict[str, Any] = {}
        self._iterator: Any = None  # the one that the next two lines belong to
        self._source: _feeding.Source | None = None
        self._program: _tracing.Program | None = None
        self._task_rows: list[int] | None = None  # as the session knows them
        self._rates: list[float] = []  # scheduled, after the last step
        self._stock_function: Callable[..., Any] | None = None
        self._steps = 1  # the user's steps_per_execution
        self._left: int | None = None  # batches to the end of the epoch
        self._warned = False
        self._hook()

    # ------------------------------------------------------------------------- hooks

    def _hook(self) -> None:
        """Replaces methods of the model by ones that bring the variables up to date."""
        model = self.model
        self._stock: dict[str, Any] = {
            name: getattr(model, name)
            for name in (
                "compile",
                "fit",
                "make_train_function",
                "make_test_function",
                "make_predict_function",
                "_get_metrics_result_or_logs",
            )
        }
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
        for name, replacement in replacements.items():
            hook = functools.partial(replacement)
            object.__setattr__(model, name, functools.wraps(self._stock[name])(hook))
        if model.compiled:
            self._install()

    def unhook(self) -> None:
        """Makes the model a stock one again, with the central model's weights."""
        for name in self._stock:
            object.__delattr__(self.model, name)
        self._close()
        if self.model.compiled:
            self.model.train_function = None
            self.model.steps_per_execution = self._steps

    def _compile(self, *args: Any, **kwargs: Any) -> None:
        self._stock["compile"](*args, **kwargs)
        self._install()

    def _install(self) -> None:
        """After compile(): from now on the model trains on learners."""
        self._close()
        self._stock_function = None
        self._steps = self.model.steps_per_execution
        reason = None
        if self.model.run_eagerly:
            reason = "it was compiled with run_eagerly=True"
        elif tf.distribute.has_strategy() or self.model._distribute_strategy is not None:
            reason = "it belongs to a tf.distribute strategy"
        elif type(self.model).make_train_function is not keras.Model.make_train_function:
            reason = f"{type(self.model).__name__} overrides make_train_function"
        if reason is not None:
            self._warn_stock(reason)
            return
        # Keras counts batches, and hands out so many for one call of train_function.
        self.model.steps_per_execution = self._steps * self.num_learners
        self.model.train_function = self._train

    def _warn_stock(self, reason: str) -> None:
        if not self._warned:
            warnings.warn(
                f"tensorbow.keras: {self.model.name!r} trains as stock Keras does, on one replica: "
                f"{reason}",
                TensorBowWarning,
                stacklevel=3,
            )
        self._warned = True

    def _make_train_function(self, force: bool = False) -> Any:
        if self.model.train_function is None or (
            force and self.model.train_function != self._train
        ):
            return self._stock["make_train_function"](force)
        return self.model.train_function

    def _make_eval_function(self, name: str, force: bool = False) -> Any:
        made = self._stock[name](force)
        # A function that is traced already reads and writes variables unseen.
        if self._mirror is not None:
            self._mirror.pull()
            self._mirror.mark_all_dirty()
        return made

    def _epoch_logs(self, logs: Any) -> Any:
        # Callbacks come next, which may hold functions that are traced already.
        if self._mirror is not None:
            self._mirror.pull()
        return self._stock["_get_metrics_result_or_logs"](logs)

    def _fit(self, *args: Any, **kwargs: Any) -> Any:
        """fit(): arrays in memory do not go through tf.data."""
        stock = self._stock["fit"]
        self._left = None
        overridden = type(self.model).fit is not keras.Model.fit
        if overridden or self.model.train_function != self._train:
            return stock(*args, **kwargs)
        try:
            call = inspect.signature(keras.Model.fit).bind(self.model, *args, **kwargs)
        except TypeError:  # a wrong call: Keras has the words for it
            return stock(*args, **kwargs)
        call.apply_defaults()
        given = call.arguments
        if isinstance(given["x"], data_adapter.DataAdapter):
            return stock(*args, **kwargs)
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
        steps = given["steps_per_epoch"]
        if steps and steps % self.model.steps_per_execution:
            given["callbacks"] = _with_callback(given["callbacks"], _EpochLength(self, steps))
        given.pop("self")
        try:
            return stock(**given)
        finally:
            self._left = None
            self._iterator = None

    # ---------------------------------------------------------------------- training

    def _train(self, iterator: Any) -> Any:
        """The model's train_function: one batch for every learner, `_steps` times."""
        if self._stock_function is not None:
            return self._stock_function(iterator)
        if iterator is not self._iterator:
            try:
                self._begin(iterator)
            except _tracing.CannotTraceError as error:
                return self._train_stock(iterator, str(error))
        source, program = self._source, self._program
        assert source is not None and program is not None
        logs = None
        for _ in range(self._steps):
            count = self.num_learners
            if self._left is not None and not isinstance(source, _feeding.BatchSource):
                count = min(count, self._left)
                self._left -= count
            taken = source.take(count)
            for batches in taken:
                logs = self._run(program, batches)
            if not taken:
                break
        if logs is None:
            raise StopIteration
        return logs

    def _begin(self, iterator: Any) -> None:
        """Finds out what an iterator hands out, before anything is taken from it."""
        source: _feeding.Source
        self._iterator = None
        if isinstance(iterator, _feeding.ArrayIterator):
            source = iterator
        elif isinstance(iterator, tf.data.Iterator):
            source = _feeding.DatasetSource(iterator)
        else:
            source = _feeding.BatchSource(next(iterator), self.num_learners)
        self._source = source
        self._program = self._program_for(source.spec)
        self._iterator = iterator

    def _run(self, program: _tracing.Program, batches: _feeding.Batches) -> Any:
        mirror, session = self._mirror, self.session
        assert mirror is not None and session is not None
        if mirror.dirty or mirror.shared:
            mirror.push()
        if batches.rows != self._task_rows:
            session._native.set_task_rows(batches.rows)
            self._task_rows = batches.rows
        try:
            rates, logs = program.run(batches.arrays)
        finally:
            mirror.mark_stale(program.written)
        if rates:
            self._note_scheduled(rates)
        if not program.checked:
            self._check(program)
        return logs

    def _check(self, program: _tracing.Program) -> None:
        """After a program's first run: hands on what the session has to say of it."""
        assert self.session is not None
        program.checked = True
        for text in self.session._native.take_warnings():
            warnings.warn(text, TensorBowWarning, stacklevel=4)
        if self.num_learners > 1 and self.session.learning_tasks == 0:
            warnings.warn(
                f"tensorbow.keras: the training step of {self.model.name!r} updates no trainable "
                "variable by what it reads of them; it runs on one learner",
                TensorBowWarning,
                stacklevel=4,
            )

    def _train_stock(self, iterator: Any, reason: str) -> Any:
        """The step is not for learners: from now on the model trains as stock Keras."""
        self._warn_stock(reason)
        if isinstance(self._source, _feeding.BatchSource):
            iterator = iter([self._source.data])
        self._close()
        self._stock_function = self.model._make_function(self.model.train_step)
        return self._stock_function(iterator)

    # --------------------------------------------------------------------- programs

    def _program_for(self, spec: Any) -> _tracing.Program:
        """The program for batches of this spec, traced when needed.

        As in stock Keras, a second shape for the same structure makes one program for
        all shapes, so that a program is not traced for every new number of rows.
        """
        if self.session is None:
            self._open()
        program = self._programs.get(repr(spec))
        if program is None:
            family = repr(tf.nest.map_structure(_any_shape, spec))
            known = self._specs.get(family)
            if known is not None:
                spec = tf.nest.map_structure(_common, known, spec)
                program = self._programs.get(repr(spec))
            self._specs[family] = spec
        if program is None:
            assert self.session is not None and self._mirror is not None
            step = _tracing.trace(
                self.model,
                spec,
                self._mirror,
                self.session.graph,
                with_rates=self._watches_rates,
                fuse=self.num_learners > 1,
                average=self.num_learners > 1 and isinstance(self.options.synchroniser, SSGD),
            )
            program = _tracing.Program(step, self.session)
            for text in self.session._native.take_warnings():
                if text.startswith(_ONE_LEARNER):
                    raise _tracing.CannotTraceError(text)
                warnings.warn(text, TensorBowWarning, stacklevel=5)
            self._programs[repr(spec)] = program
        return program

    def _open(self) -> None:
        """Makes the session."""
        optimisers = _tracing.optimisers_of(self.model)
        synchroniser = self.options.synchroniser
        if isinstance(synchroniser, SMA):
            momenta = [_momentum_of(o) for o in optimisers]
            if synchroniser.momentum == "auto" and optimisers:
                plain = all(momentum == 0 for momentum in momenta)
                momentum = _CENTRAL_MOMENTUM if plain else 0.0
                synchroniser = dataclasses.replace(synchroniser, momentum=momentum)
            elif (
                synchroniser.momentum != "auto"
                and synchroniser.momentum >= _STRONG
                and any(momentum is not None and momentum >= _STRONG for momentum in momenta)
                and self.num_learners > 1
            ):
                warnings.warn(
                    f"The learners' optimiser has momentum {max(m or 0 for m in momenta):g} and "
                    f"the central model has momentum {synchroniser.momentum:g}. Together they "
                    'shrink the usable learning rate 2- to 8-fold; momentum="auto" leaves the '
                    "central model's out.",
                    TensorBowWarning,
                    stacklevel=6,
                )
        if self._watches_rates and isinstance(synchroniser, (SMA, EASGD)):
            # Rates are watched here, which works for every optimiser.
            synchroniser = dataclasses.replace(synchroniser, restart="never")
        options = dataclasses.replace(self.options, synchroniser=synchroniser)
        # Keras's own eager runtime is on the GPUs, if there are any, and shares them with
        # nobody in the process.
        config = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
        self.session = TensorBowSession(graph=tf.Graph(), config=config, options=options)
        self._mirror = _variables.Mirror(self.session)
        if self._watches_rates:
            self._mirror.on_push = self._note_pushed

    def _close(self) -> None:
        """Ends the session; the variables are Keras's own again."""
        if self._mirror is not None:
            self._mirror.release()
        if self.session is not None:
            self.session.close()
        self.session = None
        self._mirror = None
        self._programs = {}
        self._specs = {}
        self._source = None
        self._program = None
        self._iterator = None
        self._task_rows = None
        self._rates = []

    def learner_value(self, variable: Any, learner: int) -> np.ndarray:
        """See `tensorbow.keras.learner_value`."""
        if not 0 <= learner < self.num_learners:
            raise ValueError(
                f"learner_value: learner must be from 0 to {self.num_learners - 1}, got {learner}"
            )
        if self._mirror is not None and self.session is not None:
            self._mirror.push()
            try:
                name = self._mirror.name_of(variable.value)
            except KeyError:
                return variable.numpy()
            return self.session.learner_value(name, learner)
        return variable.numpy()

    # ---------------------------------------------------------------- learning rates

    @property
    def _watches_rates(self) -> bool:
        synchroniser = self.options.synchroniser
        return (
            self.num_learners > 1
            and isinstance(synchroniser, (SMA, EASGD))
            and synchroniser.restart == "lr_drop"
        )

    def _note_pushed(self, variable: Any, old: float, new: float) -> None:
        if variable.name.split(":")[0].split("/")[-1] == "learning_rate":
            self._restart_if_dropped(old, new)

    def _note_scheduled(self, rates: list[np.ndarray]) -> None:
        now = [float(rate) for rate in rates]
        for old, new in zip(self._rates, now):
            self._restart_if_dropped(old, new)
        self._rates = now

    def _restart_if_dropped(self, old: float, new: float) -> None:
        """ALGORITHMS: restart, when the rate drops step-wise."""
        if self.session is not None and old > 0 and new <= _DROP * old:
            self.session.restart()


class _EpochLength(keras.callbacks.Callback):
    """Lets no call of train_function go beyond the end of an epoch of given length."""

    def __init__(self, replication: Replication, steps: int) -> None:
        super().__init__()
        self._replication = replication
        self._steps = steps

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._replication._left = self._steps


def _with_callback(given: Any, callback: Any) -> Any:
    if isinstance(given, keras.callbacks.CallbackList):
        given.append(callback)
        return given
    if given is None:
        return [callback]
    return [callback, *(given if isinstance(given, (list, tuple)) else [given])]


def _any_shape(leaf: Any) -> Any:
    return None if leaf is None else (leaf.dtype, leaf.shape.rank)


def _common(a: Any, b: Any) -> Any:
    """The shape of both: unknown where they differ."""
    if a is None:
        return None
    dims = [m if m == n else None for m, n in zip(a.shape, b.shape)]
    return tf.TensorSpec(dims, a.dtype)


def _momentum_of(optimiser: Any) -> float | None:
    """Of plain gradient descent; None for optimisers that adapt."""
    optimiser = getattr(optimiser, "inner_optimizer", optimiser)
    if type(optimiser) is not keras.optimizers.SGD:
        return None
    return float(optimiser.momentum)
