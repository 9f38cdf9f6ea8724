"""Custom training loops of TensorFlow 2 on learners: `tensorbow.function`."""

from __future__ import annotations

import dataclasses
import functools
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, Generic, ParamSpec, TypeVar, overload

import tensorflow as tf
from tensorflow.python.eager import record

from tensorbow._function import _arguments
from tensorbow._function._fallback import FallbackError
from tensorbow._function._program import Program, TracedStep
from tensorbow._function._variables import EagerVariables
from tensorbow._runtime import fork
from tensorbow._runtime.messages import suggests_names, warn
from tensorbow.explanation import Explanation
from tensorbow.options import Options
from tensorbow.session import TensorBowSession

P = ParamSpec("P")
R = TypeVar("R")

# The beginning of a session's warning that one learner executes a run.
_ONE_LEARNER = "A learning run is executed by one learner only"
_MAX_PROGRAMS = 1024


class _Learners:
    """The session of a step, with the eager variables that it shares."""

    def __init__(self, options: Options) -> None:
        # TensorFlow's eager runtime is on the GPUs, if there are any.
        config = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
        self.session = TensorBowSession(graph=tf.Graph(), config=config, options=options)
        self.variables = EagerVariables(self.session)


class Function(Generic[P, R]):
    """A step of a custom training loop, executed by learners; see `tensorbow.function`.

    All attributes that are not mentioned here are those of the `tf.function`.
    """

    def __init__(self, stock: Any, options: Options) -> None:
        self._stock = stock
        self._options = options
        self._name = getattr(stock.python_function, "__name__", "step")
        self._lock = threading.RLock()
        self._learners: _Learners | None = None
        self._programs: dict[Hashable, Program | None] = {}  # None: stock TensorFlow executes it
        self._any_rows = True
        self._why_stock = ""
        self._of_instances: weakref.WeakKeyDictionary[Any, Function[..., Any]]
        self._of_instances = weakref.WeakKeyDictionary()
        functools.update_wrapper(self, stock.python_function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Executes the step, on learners if it trains."""
        if self._why_stock or not self._is_eager():
            return self._call_stock(args, kwargs)
        try:
            given = _arguments.Reader(self._any_rows).read(args, kwargs)
            program = self._programs.get(given.key)
            if program is None and given.key not in self._programs:
                program = self._add_program(args, kwargs)
        except FallbackError as error:
            self._fall_back(str(error))
            program = None
        if program is None or program.has_lost_variables:
            return self._call_stock(args, kwargs)
        result: R = program.run(given.leaves)
        if program.has_warnings:
            self._warn()
        return result

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Returns the step of an instance, whose learners are its own."""
        if instance is None:
            return self
        with self._lock:
            step = self._of_instances.get(instance)
            if step is None:
                step = Function(self._stock.__get__(instance, owner), self._options)
                self._of_instances[instance] = step
            return step

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_stock" not in vars(self):
            raise AttributeError(name)
        return getattr(self._stock, name)

    @property
    def session(self) -> TensorBowSession | None:
        """The session that trains; None before the first call, and for a step that stock
        TensorFlow executes."""
        return None if self._learners is None else self._learners.session

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> Explanation:
        """Explains what a call with these arguments would do, and why; trains nothing.

        Raises:
          ValueError: if stock TensorFlow executes the step, with the reason.
        """
        given = _arguments.Reader(self._any_rows).read(args, kwargs)
        program = self._programs.get(given.key)
        if program is None and given.key not in self._programs and not self._why_stock:
            program = self._add_program(args, kwargs)
            given = _arguments.Reader(self._any_rows).read(args, kwargs)
        if program is None or self.session is None:
            why = self._why_stock or "it trains no variable"
            raise ValueError(f"explain: {self._name!r} runs as tf.function does: {why}")
        return program.explain(given.leaves)

    def _is_eager(self) -> bool:
        """Returns whether the call is eager code without a gradient tape."""
        return (
            tf.executing_eagerly()
            and not tf.config.functions_run_eagerly()
            and not tf.distribute.has_strategy()
            and not record.could_possibly_record()
        )

    def _call_stock(self, args: Any, kwargs: Any) -> Any:
        return self._stock(*args, **kwargs)

    def _fall_back(self, why: str) -> None:
        """Hands the step over to stock TensorFlow for good."""
        self._why_stock = why
        graph = None if self.session is None else self.session.graph
        warn(
            f"tensorbow.function: stock TensorFlow executes {self._name!r}, as tf.function would: "
            f"{why}",
            graph=graph,
        )

    def _add_program(self, args: Any, kwargs: Any) -> Program | None:
        """Traces the step for the arguments of a call."""
        with self._lock:
            fork.check()
            try:
                step, leaves = self._trace(args, kwargs)
            except (TypeError, ValueError):
                if not self._any_rows:
                    raise
                self._any_rows = False  # it asks for the number of rows
                step, leaves = self._trace(args, kwargs)
            given = _arguments.Reader(self._any_rows).read(args, kwargs)
            if len(self._programs) >= _MAX_PROGRAMS:
                self._programs.clear()
            self._programs[given.key] = None
            if any(variable.trainable for variable in step.function.variables):
                self._programs[given.key] = self._program_of(step, given.leaves)
            return self._programs[given.key]

    def _trace(self, args: Any, kwargs: Any) -> tuple[TracedStep, list[Any]]:
        spec_args, spec_kwargs, leaves = _arguments.specs(args, kwargs, self._any_rows)
        concrete = self._stock.get_concrete_function(*spec_args, **spec_kwargs)
        bound = concrete.function_type.bind_partial(*spec_args, **spec_kwargs).arguments
        return TracedStep(concrete, leaves, bound), leaves

    def _program_of(self, step: TracedStep, leaves: list[Any]) -> Program | None:
        """Returns the step as a run of learners; None if it trains nothing."""
        if self._learners is None:
            self._learners = _Learners(self._options)
        session = self._learners.session
        program = Program(step, leaves, session, self._learners.variables)
        why = program.facts["why_one_learner"]
        self._warn()
        if program.trains and why and session.num_learners > 1:
            raise FallbackError(why)
        return program if program.trains else None

    def _warn(self) -> None:
        """Hands on what the session has to say."""
        assert self._learners is not None
        session = self._learners.session
        for text in session._native.take_warnings():
            if not text.startswith(_ONE_LEARNER):
                warn(text, graph=session.graph)


@overload
def function(
    step: Callable[P, R],
    *,
    options: Options | None = None,
    input_signature: Any = None,
    reduce_retracing: bool = False,
) -> Function[P, R]: ...
@overload
def function(
    step: None = None,
    *,
    options: Options | None = None,
    input_signature: Any = None,
    reduce_retracing: bool = False,
) -> Callable[[Callable[P, R]], Function[P, R]]: ...


@suggests_names(*(field.name for field in dataclasses.fields(Options)))
def function(
    step: Any = None,
    *,
    options: Options | None = None,
    input_signature: Any = None,
    reduce_retracing: bool = False,
) -> Any:
    """Makes learners execute a step of a custom training loop; replaces `tf.function`.

    The rows of each call are divided among the learners. With default options they average
    gradients, statistics and metrics: the step is that of `tf.function`, to rounding. They train
    the very variables of the program: eager code, other functions, callbacks and checkpoints see
    every update at once, and may write between two calls. A step that trains nothing is that of
    `tf.function`; so is one that learners cannot divide, after a `TensorBowWarning` that says why.

    Args:
      step: a function of tensors, arrays, nests of them, `tf.data` iterators and Python values,
        or a method. Without it, the result is a decorator.
      options: a `tensorbow.Options`; None for the defaults.
      input_signature, reduce_retracing: as for `tf.function`. Calls with another number of rows
        are not traced anew in any case.

    Returns:
      A `tensorbow.Function`, which is called as `step` is.

    Raises:
      TypeError: if `options` is not an `Options`.

    Example:
      >>> @tensorbow.function
      ... def step(x, y):
      ...     with tf.GradientTape() as tape:
      ...         loss = loss_fn(y, model(x, training=True))
      ...     gradients = tape.gradient(loss, model.trainable_variables)
      ...     optimizer.apply_gradients(zip(gradients, model.trainable_variables))
      ...     return loss
    """
    if step is None:
        return functools.partial(
            function,
            options=options,
            input_signature=input_signature,
            reduce_retracing=reduce_retracing,
        )
    options = Options() if options is None else options
    if not isinstance(options, Options):
        raise TypeError(f"function: options must be a tensorbow.Options, got {options!r}")
    stock = tf.function(step, input_signature=input_signature, reduce_retracing=reduce_retracing)
    return Function(stock, options)


def session_of(step: Any) -> TensorBowSession | None:
    """Returns the session that trains a step of `tensorbow.function`.

    It has `metrics()`, `trace()`, `set_learners()`, `save_state()` and counters.

    Args:
      step: what `tensorbow.function` returned, or such a method of an instance.

    Returns:
      None before the first call, and for a step that stock TensorFlow executes.

    Raises:
      TypeError: if `step` is something else.
    """
    if not isinstance(step, Function):
        raise TypeError(f"session_of: step must be what tensorbow.function returned, got {step!r}")
    return step.session
