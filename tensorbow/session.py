"""Sessions that train on several learners.

All public methods stand here with their reference texts; their work is in `_session/`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import tensorflow as tf
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.client.session import BaseSession
from tensorflow.python.eager import context

from tensorbow import _native
from tensorbow._runtime import fork
from tensorbow._runtime.messages import count, suggests_names, warn
from tensorbow._session import hosts, learners, variables
from tensorbow._session.counts import Counts
from tensorbow._session.memory_check import MemoryCheck
from tensorbow._session.names import warn_of_unknown_names
from tensorbow._session.plan import NeedsStockRunError, RunPlan, flat_feed_dict, plan_key
from tensorbow._session.remote import Remote
from tensorbow._session.stock_comparison import compare
from tensorbow.adaptive import MegaBatch
from tensorbow.comparison import Comparison
from tensorbow.explanation import Explanation, explain
from tensorbow.metrics import Metrics, from_native
from tensorbow.options import Options
from tensorbow.synchronisers import Synchroniser, named
from tensorbow.tuning import Measurement, TuningLog, measurements

_MAX_PLANS = 1024
_TRAINABLE = tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES


class _LearnerSession(BaseSession):
    """The members that both kinds of session have; see `TensorBowSession`.

    Thread-safe as the native session is.
    """

    _session: Any = None  # __del__ needs both after an early error
    _closed = True
    _traces_one_step = False  # True if runs that train the same variables are one program's

    def __init__(
        self,
        target: str | bytes | None = "",
        graph: tf.Graph | None = None,
        config: tf.compat.v1.ConfigProto | None = None,
        options: Options | None = None,
    ) -> None:
        fork.note(self)
        if options is None:
            options = Options()
        if not isinstance(options, Options):
            raise TypeError(
                f"TensorBowSession: options must be a tensorbow.Options, got {options!r}"
            )
        self._options = options
        self._plans: dict[Any, RunPlan] = {}
        self._num_trainable = 0
        self._extended_to = -1  # the version of the graph that the session knows
        self._checked_names = False
        self._hosts: Any = None
        self._tuning_log = TuningLog()
        if target:
            super().__init__(target, graph, config=config)  # checks its type, too
            self._own(Remote(), checks_memory=False)
            self._checked_names = True  # nothing is divided
            warn(
                f"The session's target {target!r} is a remote server: its runs are those of a "
                "stock session. Learners need a local session (an empty target)."
            )
            return
        # device_count={"GPU": 0} keeps the session off the GPUs, as a stock session.
        counts = config.device_count if isinstance(config, tf.compat.v1.ConfigProto) else {}
        off_gpus = "GPU" in counts and counts["GPU"] == 0
        # Allocators of GPUs have limits and check them by themselves.
        checks_memory = off_gpus or _native.num_accelerators() == 0
        seed = getattr(graph or tf.compat.v1.get_default_graph(), "seed", None)
        seeded = seed is not None or context.global_seed() is not None
        number = options.deposit(0 if off_gpus else None, seeded, self._traces_one_step)
        try:
            super().__init__(f"tensorbow://{number}", graph, config=config)
        finally:
            _native.unregister_options(number)
        self._own(_native.SessionHandle(number), checks_memory)
        if options.other_hosts is not None:
            self._hosts = options.other_hosts.join()
            hosts.leave_at_exit(self)

    def _own(self, native: Any, checks_memory: bool) -> None:
        """Makes the parts of the session that ask the native one."""
        self._native = native
        self._counts = Counts(native)
        self._memory = MemoryCheck(native, self._graph, self._options, checks_memory)

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

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if not isinstance(error, tf.errors.OutOfRangeError):
            hosts.report_failure(self, error)
        super().__exit__(kind, error, trace)

    def close(self) -> None:
        """Closes the session. Its counts and its synchroniser can be read afterwards."""
        if not self._closed and not isinstance(self._native, Remote):
            self._counts.keep()
            self._native.take_warnings()  # dropped: the runs are over
            self._native.close()
            self._warn()
        super().close()

    def _check_open(self) -> None:
        if self._closed:
            fork.refuse_closed()

    # ---------------------------------------------------------------------------------- learners

    @property
    def options(self) -> Options:
        """The options the session was created with."""
        return self._options

    @property
    def synchroniser(self) -> Synchroniser | Literal["auto"]:
        """The synchroniser of the learners.

        With `Options(synchroniser="auto")` that is "auto" until the first learning run
        chooses `SMA()` or `SSGD()`.
        """
        choice = self._options.synchroniser
        if not isinstance(choice, str):
            return choice
        name = self._counts.chosen if self._closed else self._counts.read_chosen()
        return named(name) if name else choice

    @property
    def num_learners(self) -> int:
        """Learners in the whole system."""
        return self._counts.read("num_learners")

    @property
    def iterations(self) -> int:
        """Completed iterations (one learning task of every learner that had one)."""
        return self._counts.read("iterations")

    @property
    def learning_tasks(self) -> int:
        """Learning tasks of all learners in completed iterations."""
        return self._counts.read("learning_tasks")

    @property
    def samples_seen(self) -> int:
        """Rows of data that those tasks used.

        A task without rows counts as one; so does one whose data is taken from a pipeline
        inside a conditional or a loop of TensorFlow 1.
        """
        return self._counts.read("samples_seen")

    @property
    def threads_per_learner(self) -> int | list[int]:
        """Threads of each learner; a list where the learners of a device have different numbers.

        A lone learner computes on those of a stock session.
        """
        self._check_open()
        return learners.threads_per_learner(self._native, self._config)

    def set_learners(
        self, learners_per_device: int, threads: int | Sequence[int] | None = None
    ) -> None:
        """Changes the number of learners and of their threads, between two learning runs.

        The central model is what it was, bit for bit. Where models are averaged all
        replicas begin at it. Learners that stay keep their optimiser slots, statistics
        and random numbers; new ones begin with copies of learner 0's. With one learner
        optimiser slots are the learners' mean. Learning runs are compiled again when they
        come next; one that is under way in another thread is waited for. It
        ends the search for the best number (`Options.learners_per_device`).

        Args:
          learners_per_device: 1 to 1024.
          threads: of each learner, 1 to 1024, or a list with a number for each learner of a
            device; None is as the options say.

        Raises:
          TypeError, ValueError: for an argument that is not one of these, if the
            synchroniser does not work with this number of learners, or if the options have
            the threads of each of another number and threads= does not say them.
          tf.errors.UnimplementedError: for several learners on GPUs with a synchroniser that
            works on the CPU only.
          tf.errors.ResourceExhaustedError: if there is not memory enough for so many learners.

        Example:
          >>> sess.set_learners(4)
        """
        self._check_open()
        learners.set_learners(
            self._native, self._options, learners_per_device, threads, self._check_memory_of_more
        )

    def _check_memory_of_more(self, learners_per_device: int) -> None:
        self._memory.check_more(learners_per_device, self._plans.values(), self.synchroniser)

    @property
    def tunes_learners(self) -> bool:
        """True if the number of learners may change by itself; see
        `Options.learners_per_device`."""
        self._check_open()
        return bool(self._native.tunes_learners)

    @property
    def tuning(self) -> list[Measurement]:
        """The numbers of learners that have been tried, in order, each a `Measurement`; empty
        before the first has been measured. See `Options.learners_per_device`."""
        self._check_open()
        return measurements(self._native)

    def metrics(self) -> Metrics:
        """Returns throughput, waiting times, memory, and the spread of the replicas.

        Waits for the learning run that is under way in another thread. Reads all replicas once.

        Returns:
          A `Metrics`; times are in seconds, memory in bytes. All figures but those of memory
          and spread are 0 before the first learning run.

        Example:
          >>> sess.metrics().samples_per_second
        """
        self._check_open()
        return from_native(self._native.metrics)

    @contextlib.contextmanager
    def trace(self, path: str | os.PathLike[str]) -> Iterator[None]:
        """Records what every learner does, and when, until the block ends.

        The file is in Chrome's trace event format, for https://ui.perfetto.dev or chrome://tracing.
        The session has a lane: runs, compilations, changes of the number of learners. Each learner
        has one: tasks, and inside of these feeding, updates, averages, corrections and waiting. The
        first 4,000,000 events are kept.

        Args:
          path: of the file; written when the block ends, also by an error.

        Raises:
          TypeError: if `path` is not a path.
          OSError: if the file cannot be written.
          RuntimeError: if the session is being traced already.

        Example:
          >>> with sess.trace("trace.json"):
          ...     for _ in range(100):
          ...         sess.run(train_op, feed_dict=batch())
        """
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"trace: path must be a str or os.PathLike, got {path!r}")
        self._check_open()
        with learners.trace(self._native, path):
            yield

    @property
    def adaptive(self) -> tuple[MegaBatch, ...]:
        """The records of the last mega-batches, at most 1,000, oldest first; empty with any
        synchroniser but `AdaptiveSGD`."""
        self._check_open()
        return tuple(MegaBatch(*map(tuple, record)) for record in self._native.mega_batches)

    @property
    def learner_devices(self) -> list[str]:
        """The device of each learner, for people: its CPU, or its GPU with the stream, the cuDNN
        and cuBLAS handles and the allocator that are its own."""
        self._check_open()
        return list(self._native.learner_devices)

    # -------------------------------------------------------------------------- models and state

    def learner_value(self, variable: Any, learner: int) -> np.ndarray:
        """Returns a copy of one learner's own value of a variable.

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
        learner = variables.check_learner(learner, self.num_learners)
        operation = variables.operation_of("learner_value", self.graph, variable)
        self._check_open()
        found: np.ndarray = variables.read(
            lambda name: self._native.learner_value(name, learner), self.run, variable, operation
        )
        return found

    def central(self, variable: Any, averaged: bool = True) -> np.ndarray:
        """Returns a copy of the central model's value of a variable.

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
        operation = variables.operation_of("central", self.graph, variable)
        self._check_open()
        found: np.ndarray = variables.read(
            lambda name: self._native.central_value(name, bool(averaged)),
            self.run,
            variable,
            operation,
        )
        return found

    def restart(self) -> None:
        """Sets every replica to the central model before the next learning run.

        The central model's momentum is forgotten, optimiser slots are kept (CROSSBOW, VLDB
        2019, section 3.2).
        """
        self._check_open()
        self._native.restart()

    def merge(self) -> None:
        """Merges the training since the last merge before a mega-batch is complete, with
        `AdaptiveSGD`; does nothing if there is none.

        Several hosts call it at the same place of their program, for instance before a last
        evaluation: between two merges they read the last merged model. It waits for all of them,
        and takes part in their merges meanwhile.

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
        """Saves everything that training needs to continue from here bit for bit.

        These are every learner's replica of every variable, the central model with its momentum,
        the central values of all variables, all counters, learning rates and random states.
        `tf.compat.v1.train.Saver` saves the central model alone; restored, training restarts from
        there.

        Args:
          path: of a local file, made or replaced. It names the files with the tensors,
            `<path>.tensorbow-<n>.*` beside it, which are an ordinary TensorFlow
            checkpoint: of every variable the central value, under the variable's name.
            It is replaced by renaming, when the new files are on the disk: killed at any
            moment, the process leaves the old state or the new one, whole.

        Where several hosts train together, all of them call it at the same place; each
        saves its part as `<path>-host<rank>`, and all parts are replaced or none.

        Not saved: positions in input pipelines, queues and tables. Random state is not
        saved in the stock session: initialisers, runs that learners do not execute, and
        one learner's runs unless `Options(seed=...)` is given. Nor is it in functions,
        and of ops other than uniform, normal and truncated normal ones; a warning says so
        if learners have such.

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
        """Restores a state saved by `save_state`, in this process or another.

        The graph must have the same variables and the session the same synchroniser. The session
        takes over the number of learners, and keeps it unless `Options` say "auto". Initialisers
        need not be run before; variables that had no value in the saved state keep theirs. Several
        hosts all call it and find their own parts; there must be as many hosts and learners as
        there were. After an error the session is as it was.

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
        """Ends tuning that the options do not ask for: the program is to do the same every time."""
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

    # -------------------------------------------------------------------------------------- runs

    def explain(self, fetches: Any, feed_dict: Any = None) -> Explanation:
        """Returns how `run(fetches, feed_dict)` would be executed, and why; nothing is trained or
        written.

        The tensors of a learning run that is to be divided get their row types, which follow
        from the graph; nothing of the run is executed.

        Args:
          fetches, feed_dict: as for `tf.compat.v1.Session.run`.

        Returns:
          An `Explanation`, which prints readably.

        Raises:
          TypeError, ValueError: as `tf.compat.v1.Session.run` does.
          tf.errors.FailedPreconditionError: if variables have no values yet.
        """
        self._check_open()
        feeds = flat_feed_dict(feed_dict)
        plan = RunPlan(self._graph, fetches, feeds)
        if plan.sparse_feeds:
            self._native.add_sparse_feeds(plan.sparse_feeds)
        arrays = plan.arrays(feeds, lambda name: self._is_divided(plan, name))
        found: Explanation = self._do_call(self._explain, plan, arrays)
        return found

    def _explain(self, plan: RunPlan, arrays: list[np.ndarray]) -> Explanation:
        self._extend_graph()
        found = explain(self._native, self._options, plan, arrays)
        self._warn()
        return found

    def compare_with_stock(self, fetches: Any, feed_dict: Any = None, steps: int = 3) -> Comparison:
        """Returns how far training steps on learners are from a stock session's.

        The steps begin at the session's variables and are executed in sessions of their own:
        stock's; stock's with variables a rounding error away, which shows what rounding does to
        the program; and one with this session's options and at least two learners. This session
        keeps its state.

        Args:
          fetches, feed_dict: a training step, as for `tf.compat.v1.Session.run`; the same rows
            in every step.
          steps: the number of steps.

        Returns:
          A `Comparison`, which prints readably: the relative difference of every fetch and of
          every variable in the graph's collections.

        Raises:
          TypeError, ValueError: if the fetches do not train or take data from the graph, or
            the options average models.
          tf.errors.FailedPreconditionError: if variables have no values yet.
        """
        self._check_open()
        return compare(self, fetches, feed_dict, steps)

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> Any:
        """Sets up a partial run as TensorFlow does; the central model executes it."""
        handle = super().partial_run_setup(fetches, feeds)
        self._warn()
        return handle

    def _run(
        self, handle: Any, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any
    ) -> Any:
        if handle is not None:
            return super()._run(handle, fetches, feed_dict, options, run_metadata)
        if self._closed:
            fork.refuse_closed()
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
            arrays = plan.arrays(feeds, lambda name: self._is_divided(plan, name))
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
        """Returns a new plan and keeps it if `key` stands for it; `feeds` are `feed_dict`
        flattened."""
        plan = RunPlan(self._graph, fetches, feeds)
        flat = len(feeds) == len(feed_dict) and all(a is b for a, b in zip(feeds, feed_dict))
        if plan.sparse_feeds:
            self._native.add_sparse_feeds(plan.sparse_feeds)
        if not self._memory.is_done:
            self._memory.check(plan, self.synchroniser, self._extend_graph)
        if key is not None and flat and plan.is_reusable:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def _is_divided(self, plan: RunPlan, feed: str) -> bool:
        """Returns true if learners divide that feed of the run among their tasks."""
        sparse = any(feed in parts for parts in plan.sparse_feeds)
        if feed in tuple(self._options.replicate) or sparse:
            return False
        self._extend_graph()
        return plan.has_tasks(self._native)

    def _run_prepared(self, prepared: Any, arrays: list[np.ndarray]) -> Any:
        self._extend_graph()
        values = prepared.run(arrays)
        if prepared.has_warnings:
            self._warn()
        self._tuning_log.after_run(self._native)
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
        if not self._checked_names and self.iterations > 0:
            self._checked_names = True
            warn_of_unknown_names(self.graph, self._options)
        return values

    def _call_tf_sessionrun(
        self, options: Any, feed_dict: Any, fetch_list: Any, target_list: Any, run_metadata: Any
    ) -> Any:
        values = pywrap_tf_session.TF_SessionRun_wrapper(
            self._session, options, feed_dict, fetch_list, target_list, run_metadata
        )
        self._warn()
        return values

    def _make_callable_from_options(self, callable_options: Any) -> Any:
        """Returns a callable as TensorFlow does; Keras 2 trains by it."""
        execute = super()._make_callable_from_options(callable_options)

        def execute_and_warn(*arguments: Any, **keywords: Any) -> Any:
            self._check_open()
            values = execute(*arguments, **keywords)
            self._warn()
            return values

        return execute_and_warn

    def _extend_graph(self) -> None:
        # get_collection_ref() takes a lock, and this is executed in every run.
        trainable = self._graph._collections.get(_TRAINABLE, ())
        if len(trainable) != self._num_trainable:
            self._num_trainable = len(trainable)
            operations = (getattr(variable, "op", None) for variable in trainable)
            self._native.add_trainable([op.name for op in operations if op is not None])
            if self._graph.seed is not None:
                self._keep_learners()
        # TensorFlow compares versions under a lock, in Python, in every run.
        version = self._graph.version
        if version != self._extended_to:
            super()._extend_graph()
            self._extended_to = version

    def _warn(self) -> None:
        for text in self._native.take_warnings():
            warn(text, graph=self._graph)


_OPTIONS = tuple(field.name for field in dataclasses.fields(Options))


@suggests_names(*_OPTIONS)
class TensorBowSession(_LearnerSession, tf.compat.v1.Session):
    """A `tf.compat.v1.Session` whose training steps run on several learners.

    Programs need no change but the class. Runs that train are divided among the learners by the
    rows that are fed or taken from an input pipeline. Initialisers, assignments and restores run
    once and reach every learner. Everything else, with evaluation and `tf.compat.v1.train.Saver`,
    sees the central model, the learners' consistent average.

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


@suggests_names(*_OPTIONS)
class InteractiveSession(_LearnerSession, tf.compat.v1.InteractiveSession):
    """A `tf.compat.v1.InteractiveSession` whose training steps run on several learners.

    It installs itself as the default session; arguments as for `TensorBowSession`.
    """
