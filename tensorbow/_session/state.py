"""What one asks of a session: its counts, its learners' and its centre's values, its state.

`session.py` has what it is made of and how it runs.
"""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from tensorbow._runtime.messages import count, meant, warn
from tensorbow._session.learners import SessionLearners
from tensorbow.options import Options
from tensorbow.synchronisers import Synchroniser, named


class Remote:
    """Stands in for the native session where a server elsewhere executes the runs."""

    num_learners = 1
    synchroniser = ""  # nothing learns here
    tunes_learners = False

    def __getattr__(self, name: str) -> Any:
        raise tf.errors.UnimplementedError(
            None,
            None,
            f"This session's runs are executed by a remote server, which knows no {name}; "
            "wanted a local session (an empty target).",
        )

    def end_tuning(self) -> None:
        """There is none."""

    def add_trainable(self, variables: list[str]) -> None:
        """Nothing to tell: nothing is classified."""

    def prepare(self, **run: Any) -> None:
        """No run is for learners."""

    def describe_run(self, **run: Any) -> dict[str, Any]:
        """Nothing is classified; whatever it is, no run is for learners."""
        return {"kind": "read"}

    def add_sparse_feeds(self, tensors: list[list[str]]) -> None:
        """Nothing to tell: nothing is divided."""

    def take_warnings(self) -> list[str]:
        """There are none but the one at construction."""
        return []


class SessionState(SessionLearners):
    """The part of a session that answers questions, and saves and loads what it knows.

    Thread-safe as the native session is. The class that makes the session sets the
    attributes below.
    """

    _last_counts: dict[str, int]  # by property; empty until the session is closed
    _chosen: str  # the name of what "auto" became; empty until then

    def __repr__(self) -> str:
        name = type(self).__name__
        if self._closed:
            return f"<{name}: closed>"
        if isinstance(self._native, Remote):
            return f"<{name}: on the server {self.sess_str.decode()}>"
        kept = f", {self._native.synchroniser}" if self._native.synchroniser else ""
        done = count(self.iterations, "iteration")
        return f"<{name}: {count(self.num_learners, 'learner')}{kept}, {done}>"

    @property
    def sess_str(self) -> bytes:
        """The target: empty for a local session."""
        return self._target if isinstance(self._native, Remote) else b""

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
    def iterations(self) -> int:
        """Completed iterations (one learning task of every learner that had one)."""
        return self._count("iterations")

    @property
    def learning_tasks(self) -> int:
        """Learning tasks of all learners in completed iterations."""
        return self._count("learning_tasks")

    @property
    def samples_seen(self) -> int:
        """Rows of data that those tasks used.

        A task without rows counts as one; so does one whose data is taken from a pipeline
        inside a conditional or a loop of TensorFlow 1.
        """
        return self._count("samples_seen")

    def _count(self, name: str) -> int:
        if name in self._last_counts:
            return self._last_counts[name]
        return int(getattr(self._native, name))

    def close(self) -> None:
        """Closes the session. Its counts and its synchroniser can be read afterwards."""
        if not self._closed and not isinstance(self._native, Remote):
            names = ("num_learners", "iterations", "learning_tasks", "samples_seen")
            self._last_counts = {name: self._count(name) for name in names}
            self._chosen = self._native.synchroniser
            self._native.take_warnings()  # of runs whose outcome nobody wants
            self._native.close()
            self._warn()
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
          TypeError, ValueError: if there is no such variable or learner.
          tf.errors.FailedPreconditionError: if the variable is not initialised.
        """
        if isinstance(learner, bool) or not isinstance(learner, (int, np.integer)):
            raise TypeError(f"learner_value: learner must be an int, got {learner!r}")
        if not 0 <= learner < self.num_learners:
            raise ValueError(
                f"learner_value: learner must be from 0 to {self.num_learners - 1}, got {learner}"
            )
        operation = _variable_operation("learner_value", self.graph, variable)
        self._check_open()
        try:
            serialized = self._native.learner_value(operation.name, int(learner))
        except tf.errors.NotFoundError:  # no learning run has reached it
            return self.run(_value_of(variable, operation))
        return tf.make_ndarray(tensor_pb2.TensorProto.FromString(serialized))

    def central(self, variable: Any, averaged: bool = True) -> np.ndarray:
        """A copy of the central model's value of a variable.

        Args:
          variable: a variable of the graph, or the name of one.
          averaged: with a synchroniser that has an `ema_decay`, whether to give the moving
            average of the central model (what fetches and `Saver` see) or the central model
            itself. Makes no difference otherwise.

        Returns:
          An array of the variable's dtype and shape.

        Raises:
          TypeError, ValueError: if there is no such variable.
          tf.errors.FailedPreconditionError: if the variable is not initialised.
        """
        operation = _variable_operation("central", self.graph, variable)
        self._check_open()
        try:
            serialized = self._native.central_value(operation.name, bool(averaged))
        except tf.errors.NotFoundError:  # no learning run has reached it
            return self.run(_value_of(variable, operation))
        return tf.make_ndarray(tensor_pb2.TensorProto.FromString(serialized))

    def restart(self) -> None:
        """Sets every replica to the central model before the next learning run.

        The central model's momentum is forgotten, optimiser slots are kept (CROSSBOW, VLDB
        2019, section 3.2).
        """
        self._check_open()
        self._native.restart()

    def merge(self) -> None:
        """With `AdaptiveSGD`: merges what learners have trained since the last merge, though it
        is less than a mega-batch; nothing if there is none.

        Several hosts call it at the same place of their program, before a last evaluation for
        instance: what is read between two merges is there the last merged model. It waits for
        all of them, and takes part in their merges meanwhile.

        Raises:
          tf.errors.FailedPreconditionError: with another synchroniser.
          tf.errors.AbortedError: if a learning task of another host has failed.
          tf.errors.UnavailableError: if a host does not answer.

        Example:
          >>> for batch in batches:
          ...     sess.run(train_op, feed_dict=batch)
          >>> sess.merge()
          >>> print(sess.run(accuracy, feed_dict=test))
        """
        self._check_open()
        self._native.merge()

    def save_state(self, path: str | os.PathLike[str]) -> None:
        """Saves all it takes to go on from here bit for bit, whatever happens meanwhile.

        That is every learner's replica of every variable, the central model with its
        momentum, the central values of all variables, all counters, the learning rates
        of the last runs and the random state of the learners. `tf.compat.v1.train.Saver`
        saves the central model alone; restored, training restarts from there.

        Args:
          path: of a local file, made or replaced. It names the files with the tensors,
            `<path>.tensorbow-<n>.*` beside it, which are an ordinary TensorFlow
            checkpoint: of every variable the central value, under the variable's name.
            It is replaced by renaming, when the new files are on the disk: killed at any
            moment, the process leaves the old state or the new one, whole.

        Where several hosts train together, all of them call it at the same place; each
        saves its part as `<path>-host<rank>`, and all parts are replaced or none.

        Not saved: positions in input pipelines, queues and tables; random state in the
        stock session (initialisers, runs that learners do not execute, and one learner's
        runs unless `Options(seed=...)` is given), in functions, and of ops other than
        uniform, normal and truncated normal ones (with a warning where learners have
        such).

        Raises:
          TypeError: if `path` is not a path.
          tf.errors.FailedPreconditionError: if `path` exists and is not a saved state.
          tf.errors.AbortedError: if another host cannot write its part.
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

        The graph must have the same variables and the session the same synchroniser; it
        takes over the number of learners, and keeps it unless `Options` say "auto".
        Initialisers need not be run before; variables that had no value when the state was
        saved are left as they are. Where several hosts train together, all of them call it,
        each finds its own part, and there are as many hosts and learners as there were.
        After an error the session is as it was.

        Args:
          path: as given to `save_state`. The files may have been moved together.

        Raises:
          TypeError: if `path` is not a path.
          tf.errors.NotFoundError: if there is no such state.
          tf.errors.FailedPreconditionError: if it is of another graph or of a session
            with other options.
          tf.errors.DataLossError: if its files are damaged.

        Example:
          >>> sess.load_state("run/state")
        """
        self._with_state(self._native.load_state, "load_state", path)
        self._keep_learners()

    def _keep_learners(self) -> None:
        """The program is to do the same every time: ends tuning that nobody asked for."""
        if not self._options.tunes_learners:
            self._native.end_tuning()

    def _with_state(self, action: Any, name: str, path: Any) -> None:
        path = os.fspath(path) if isinstance(path, os.PathLike) else path
        if not isinstance(path, str) or not path:
            raise TypeError(f"{name}: path must be a str or os.PathLike, got {path!r}")
        self._check_open()
        self._extend_graph()
        action(path)
        self._warn()

    def _warn_of_unknown_names(self) -> None:
        """What options name has to be in the graph; it may grow, so it is said only once,
        after the first learning run."""
        for option in ("shard", "replicate", "combine", "run_kind"):
            for name in getattr(self._options, option):
                if not _has(self.graph, name):
                    warn(
                        f"No {'tensor' if ':' in name else 'operation'} {name!r} in the session's "
                        f"graph{_hint(self.graph, name)}; Options({option}=...) has no effect "
                        "there. Give the tensor itself, or its whole name."
                    )

    def _warn(self) -> None:
        for text in self._native.take_warnings():
            warn(text, graph=self._graph)


def _has(graph: tf.Graph, name: str) -> bool:
    """Whether the graph has an operation, or a tensor, of this name."""
    try:
        graph.as_graph_element(name)
    except (KeyError, ValueError):
        return False
    return True


def _hint(graph: tf.Graph, name: str) -> str:
    """The name that somebody meant, if there is one like it."""
    operation, colon, output = name.partition(":")
    known = [op.name for op in graph.get_operations()]
    # A scope that is missing, a different case, or another slip.
    right = next((k for k in known if k.endswith(f"/{operation}")), None)
    right = right or next((k for k in known if k.lower() == operation.lower()), None)
    right = right or meant(operation, known)
    return "" if right is None else f" (did you mean {right + colon + output!r}?)"


_VARIABLES = ("Variable", "VariableV2", "VarHandleOp")


def _variable_operation(who: str, graph: tf.Graph, variable: Any) -> tf.Operation:
    """The node of a variable that is given by itself or by name."""
    if isinstance(variable, str):
        try:
            operation = graph.get_operation_by_name(variable.split(":")[0])
        except (KeyError, ValueError):
            raise ValueError(f"{who}: the session's graph has no variable {variable!r}") from None
    else:
        operation = getattr(variable, "op", None)
        if not isinstance(operation, tf.Operation):
            raise TypeError(
                f"{who}: variable must be a variable of the session's graph or the name of "
                f"one, got {variable!r}"
            )
        if operation.graph is not graph:
            raise ValueError(f"{who}: {operation.name!r} is of another graph than the session's")
    if operation.type not in _VARIABLES:
        raise ValueError(f"{who}: {operation.name!r} is a {operation.type}, wanted a variable")
    return operation


def _value_of(variable: Any, operation: tf.Operation) -> Any:
    """What to fetch for the value of a variable; `operation`: its node."""
    if not isinstance(variable, str):
        return variable
    if operation.type != "VarHandleOp":
        return operation.outputs[0]
    for consumer in operation.outputs[0].consumers():
        if consumer.type == "ReadVariableOp" and not consumer.control_inputs:
            return consumer.outputs[0]
    raise ValueError(f"learner_value: nothing in the graph reads variable {operation.name!r}")
