"""The session that trains on several learners."""

from __future__ import annotations

import os
import warnings
from typing import Any, Literal

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.client.session import BaseSession

from tensorbow import _native
from tensorbow._run_plan import NeedsStockRunError, RunPlan, flat_feed_dict, plan_key
from tensorbow.options import Options
from tensorbow.synchronisers import Synchroniser, named

_MAX_PLANS = 1024


class TensorBowWarning(UserWarning):
    """Something about a run that its author should know; each is said once a session."""


class _Remote:
    """Stands in for the native session where a server elsewhere executes the runs."""

    num_learners = 1
    synchroniser = ""  # nothing learns here

    def __getattr__(self, name: str) -> Any:
        raise tf.errors.UnimplementedError(
            None,
            None,
            f"This session's runs are executed by a remote server, which knows no {name}; "
            "wanted a local session (an empty target).",
        )

    def add_trainable(self, variables: list[str]) -> None:
        """Nothing to tell: nothing is classified."""

    def prepare(self, **run: Any) -> None:
        """No run is for learners."""

    def add_sparse_feeds(self, tensors: list[str]) -> None:
        """Nothing to tell: nothing is divided."""

    def take_warnings(self) -> list[str]:
        """There are none but the one at construction."""
        return []


class _LearnerSession(BaseSession):
    """What both kinds of session share; see `TensorBowSession`."""

    def __init__(
        self,
        target: str | bytes | None = "",
        graph: tf.Graph | None = None,
        config: tf.compat.v1.ConfigProto | None = None,
        options: Options | None = None,
    ) -> None:
        self._session = None  # in case of an early error: __del__ looks at it
        self._closed = True
        if options is None:
            options = Options()
        if not isinstance(options, Options):
            raise TypeError(
                f"TensorBowSession: options must be a tensorbow.Options, got {options!r}"
            )
        self._options = options
        self._plans: dict[Any, RunPlan] = {}
        self._num_trainable = 0
        self._last_counts: dict[str, int] = {}
        self._chosen = ""  # the name of what "auto" became
        if target:
            super().__init__(target, graph, config=config)  # checks its type, too
            self._native: Any = _Remote()
            warnings.warn(
                f"The session's target {target!r} is a remote server: its runs are those of a "
                "stock session. Learners need a local session (an empty target).",
                TensorBowWarning,
                stacklevel=3,
            )
            return
        # As in a stock session: device_count={"GPU": 0} keeps it off the GPUs.
        counts = config.device_count if isinstance(config, tf.compat.v1.ConfigProto) else {}
        number = options.deposit(0 if "GPU" in counts and counts["GPU"] == 0 else None)
        try:
            super().__init__(f"tensorbow://{number}", graph, config=config)
        finally:
            _native.withdraw_options(number)
        self._native = _native.SessionHandle(number)

    # ------------------------------------------------------------- what is asked of it

    @property
    def sess_str(self) -> bytes:
        """The target: empty for a local session."""
        return self._target if isinstance(self._native, _Remote) else b""

    @property
    def options(self) -> Options:
        """The options the session was created with."""
        return self._options

    @property
    def synchroniser(self) -> Synchroniser | Literal["auto"]:
        """What keeps the learners together.

        With `Options(synchroniser="auto")` that is "auto" until the first learning run
        chooses `SMA()` or `SSGD()`.
        """
        choice = self._options.synchroniser
        if not isinstance(choice, str):
            return choice
        if not self._chosen and not self._closed:
            self._chosen = self._native.synchroniser
        return named(self._chosen) if self._chosen else choice

    @property
    def num_learners(self) -> int:
        """Learners in the whole system."""
        return self._count("num_learners")

    @property
    def learner_devices(self) -> list[str]:
        """What each learner computes on, for people: its CPU, or its GPU with the stream,
        the cuDNN and cuBLAS handles and the allocator that are its own."""
        return list(self._native.learner_devices)

    @property
    def iterations(self) -> int:
        """Completed iterations (one learning task of every learner that had one)."""
        return self._count("iterations")

    @property
    def learning_tasks(self) -> int:
        """Learning tasks of all learners in completed iterations."""
        return self._count("learning_tasks")

    @property
    def samples_seen(self) -> int:
        """Rows of data that those tasks used; a task without rows counts as one."""
        return self._count("samples_seen")

    def _count(self, name: str) -> int:
        if name in self._last_counts:
            return self._last_counts[name]
        return int(getattr(self._native, name))

    def close(self) -> None:
        """Closes the session. Its counts and its synchroniser can be read afterwards."""
        if not self._closed and not isinstance(self._native, _Remote):
            names = ("num_learners", "iterations", "learning_tasks", "samples_seen")
            self._last_counts = {name: self._count(name) for name in names}
            self._chosen = self._native.synchroniser
        super().close()

    def learner_value(self, variable: Any, learner: int) -> np.ndarray:
        """A copy of one learner's own value of a variable.

        Args:
          variable: a variable of the graph, or the name of one.
          learner: 0 <= learner < num_learners.

        Returns:
          An array of the variable's dtype and shape. Before the first learning run that
          reaches the variable, and with one learner, it is the central value.

        Raises:
          ValueError: if there is no such learner.
          tf.errors.FailedPreconditionError: if the variable is not initialised.
        """
        if isinstance(learner, bool) or not isinstance(learner, (int, np.integer)):
            raise TypeError(f"learner_value: learner must be an int, got {learner!r}")
        if not 0 <= learner < self.num_learners:
            raise ValueError(
                f"learner_value: learner must be from 0 to {self.num_learners - 1}, got {learner}"
            )
        name = _name_of(variable)
        try:
            serialized = self._native.learner_value(name, int(learner))
        except tf.errors.NotFoundError:  # no learning run has reached it
            return self.run(_value_of(self.graph, variable))
        return tf.make_ndarray(tensor_pb2.TensorProto.FromString(serialized))

    def central(self, variable: Any, averaged: bool = True) -> np.ndarray:
        """A copy of the central model's value of a variable.

        Args:
          variable: a variable of the graph, or the name of one.
          averaged: with a synchroniser that has an `ema_decay`, whether to give the moving
            average of the central model (what `run` and `Saver` see) or the central model
            itself. Makes no difference otherwise.

        Returns:
          An array of the variable's dtype and shape.

        Raises:
          tf.errors.FailedPreconditionError: if the variable is not initialised.
        """
        name = _name_of(variable)
        try:
            serialized = self._native.central_value(name, bool(averaged))
        except tf.errors.NotFoundError:  # no learning run has reached it
            return self.run(_value_of(self.graph, variable))
        return tf.make_ndarray(tensor_pb2.TensorProto.FromString(serialized))

    def restart(self) -> None:
        """Sets every replica to the central model before the next learning run.

        The central model's momentum is forgotten, optimiser slots are kept (CROSSBOW, VLDB
        2019, section 3.2).
        """
        self._native.restart()

    def save_state(self, path: str | os.PathLike[str]) -> None:
        """Saves all it takes to go on from here bit for bit, whatever happens meanwhile.

        That is every learner's replica of every variable, the central model with its
        momentum, the central values of all variables, all counters, the learning rates
        of the last runs and the random state of the learners. `tf.compat.v1.train.Saver`
        saves the central model alone; restored, training begins anew from there.

        Args:
          path: of a local file, made or replaced. It names the files with the tensors,
            `<path>.tensorbow-<n>.*` beside it, which are an ordinary TensorFlow
            checkpoint: of every variable the central value, under the variable's name.
            It is replaced by renaming, when the new files are on the disk: killed at any
            moment, the process leaves the old state or the new one, whole.

        Not saved: positions in input pipelines, queues and tables; random state in the
        stock session (initialisers, runs that learners do not execute, and one learner's
        runs unless `Options(seed=...)` is given), in functions, and of ops other than
        uniform, normal and truncated normal ones (with a warning where learners have
        such).

        Raises:
          TypeError: if `path` is not a path.
          tf.errors.FailedPreconditionError: if `path` exists and is not a saved state.
          tf.errors.OpError: if it cannot be written; the state saved before is intact.

        Example:
          >>> with tensorbow.TensorBowSession() as sess:
          ...     if os.path.exists("run/state"):
          ...         sess.load_state("run/state")
          ...     else:
          ...         sess.run(tf.compat.v1.global_variables_initializer())
          ...     while sess.iterations < 10_000:
          ...         sess.run(train_op, feed_dict=batch(sess.iterations))
          ...         if sess.iterations % 100 == 0:
          ...             sess.save_state("run/state")
        """
        self._with_state(self._native.save_state, "save_state", path)

    def load_state(self, path: str | os.PathLike[str]) -> None:
        """Goes back to a state saved by `save_state`, in this process or another.

        The graph must have the same variables and the session the same number of
        learners and synchroniser. Initialisers need not be run before; variables that
        had no value when the state was saved are left as they are.

        Args:
          path: as given to `save_state`. The files may have been moved together.

        Raises:
          TypeError: if `path` is not a path.
          tf.errors.NotFoundError: if there is no such state.
          tf.errors.FailedPreconditionError: if it is of another graph or of a session
            with other options.
          tf.errors.DataLossError: if its files are damaged.
          After any of these the session is as it was.

        Example:
          >>> sess.load_state("run/state")
        """
        self._with_state(self._native.load_state, "load_state", path)

    def _with_state(self, action: Any, name: str, path: Any) -> None:
        path = os.fspath(path) if isinstance(path, os.PathLike) else path
        if not isinstance(path, str) or not path:
            raise TypeError(f"{name}: path must be a str or os.PathLike, got {path!r}")
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        self._extend_graph()
        action(path)
        self._warn()

    def _warn(self) -> None:
        for text in self._native.take_warnings():
            warnings.warn(text, TensorBowWarning, stacklevel=3)

    # ----------------------------------------------------------------------- running

    def _extend_graph(self) -> None:
        trainable = self._graph.get_collection_ref(tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES)
        if len(trainable) != self._num_trainable:
            self._num_trainable = len(trainable)
            operations = (getattr(variable, "op", None) for variable in trainable)
            self._native.add_trainable([op.name for op in operations if op is not None])
        super()._extend_graph()

    def _run(
        self, handle: Any, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any
    ) -> Any:
        if handle is not None:
            return super()._run(handle, fetches, feed_dict, options, run_metadata)
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        if self._graph.version == 0:
            raise RuntimeError(
                "The Session graph is empty. Add operations to the graph before calling run()."
            )
        key = plan_key(fetches, feed_dict)
        plan = self._plans.get(key) if key is not None else None
        if plan is not None:
            feeds = feed_dict or {}
        else:
            feeds = flat_feed_dict(feed_dict)
            plan = self._new_plan(key, fetches, feeds, feed_dict or {})
        try:
            arrays = plan.arrays(feeds)
        except NeedsStockRunError:
            return super()._run(handle, fetches, feed_dict, options, run_metadata)
        values = None
        if plan.prepared is not None and options is None and run_metadata is None:
            values = self._do_call(self._run_prepared, plan.prepared, arrays)
        if values is None:
            values = self._do_call(self._run_plan, plan, arrays, options, run_metadata)
        return plan.results(self, arrays, values)

    def _new_plan(
        self, key: Any, fetches: Any, feeds: dict[Any, Any], feed_dict: dict[Any, Any]
    ) -> RunPlan:
        """A plan, kept if `key` stands for it: `feeds` are `feed_dict` flattened."""
        plan = RunPlan(self._graph, fetches, feeds)
        flat = len(feeds) == len(feed_dict) and all(a is b for a, b in zip(feeds, feed_dict))
        if plan.sparse_feeds:
            self._native.add_sparse_feeds(plan.sparse_feeds)
        if key is not None and flat and plan.is_reusable:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def _run_prepared(self, prepared: Any, arrays: list[np.ndarray]) -> Any:
        self._extend_graph()
        values = prepared.run(arrays)
        if prepared.has_warnings:
            self._warn()
        return values

    def _run_plan(
        self, plan: RunPlan, arrays: list[np.ndarray], options: Any, metadata: Any
    ) -> Any:
        if plan.is_empty:
            return []
        self._extend_graph()
        feeds = {feed.output: array for feed, array in zip(plan.feeds, arrays)}
        values = self._call_tf_sessionrun(
            options, feeds, plan.fetch_outputs, plan.target_ops, metadata
        )
        plan.prepare(self._native)
        return values

    def _call_tf_sessionrun(
        self, options: Any, feed_dict: Any, fetch_list: Any, target_list: Any, run_metadata: Any
    ) -> Any:
        values = pywrap_tf_session.TF_SessionRun_wrapper(
            self._session, options, feed_dict, fetch_list, target_list, run_metadata
        )
        self._warn()
        return values


class TensorBowSession(_LearnerSession, tf.compat.v1.Session):
    """A `tf.compat.v1.Session` whose training steps run on several learners.

    Programs need no change but the class. Runs that train are divided among the
    learners by the rows that are fed (or, without feeds, each learner pulls its own
    element from the input pipeline); initialisers, assignments and restores run once
    and reach every learner; everything else, evaluation and `tf.compat.v1.train.Saver`
    included, sees the central model, the learners' consistent average.

    Args:
      target: empty for a local session. A remote server's address gives a stock session
        on that server, with a warning.
      graph: the graph to run; the default graph if None.
      config: a `tf.compat.v1.ConfigProto`, honoured as by TensorFlow's own session.
      options: a `tensorbow.Options`; None for the defaults.

    Raises:
      TypeError, ValueError: for arguments of a wrong type, or options that do not fit
        the number of learners.

    Example:
      >>> with tensorbow.TensorBowSession() as sess:
      ...     sess.run(tf.compat.v1.global_variables_initializer())
      ...     _, l = sess.run([train_op, loss], feed_dict={x: images, y: labels})
    """


class InteractiveSession(_LearnerSession, tf.compat.v1.InteractiveSession):
    """A `tf.compat.v1.InteractiveSession` whose training steps run on several learners.

    It installs itself as the default session; arguments as for `TensorBowSession`.
    """


def _name_of(variable: Any) -> str:
    """The name of the node of a variable that is given by itself or by name."""
    name: str = variable if isinstance(variable, str) else variable.op.name
    return name.split(":")[0]


def _value_of(graph: tf.Graph, variable: Any) -> Any:
    """What to fetch for the value of a variable that is given by itself or by name."""
    if not isinstance(variable, str):
        return variable
    name = _name_of(variable)
    operation = graph.get_operation_by_name(name)
    if operation.type != "VarHandleOp":
        return operation.outputs[0]
    for consumer in operation.outputs[0].consumers():
        if consumer.type == "ReadVariableOp" and not consumer.control_inputs:
            return consumer.outputs[0]
    raise ValueError(f"learner_value: nothing in the graph reads variable {name!r}")
