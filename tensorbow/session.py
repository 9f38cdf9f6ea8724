"""The session that trains on several learners."""

from __future__ import annotations

import atexit
import dataclasses
import multiprocessing.util
import sys
import weakref
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.client import pywrap_tf_session

from tensorbow import _native
from tensorbow._runtime import fork
from tensorbow._runtime.messages import suggests_names, warn
from tensorbow._session import memory
from tensorbow._session.layout import as_list
from tensorbow._session.plan import NeedsStockRunError, RunPlan, flat_feed_dict, plan_key
from tensorbow._session.state import Remote, SessionState
from tensorbow.explanation import Explanation, explain
from tensorbow.options import Options, cores
from tensorbow.tuning import TuningLog

_MAX_PLANS = 1024
_RUNS_BETWEEN_LOGS = 32
_TRAINABLE = tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES


# Sessions that train with other hosts, which wait for them.
_with_hosts: weakref.WeakSet[Any] = weakref.WeakSet()


@atexit.register
def _leave_hosts() -> None:
    """The program ends: other hosts go on without it, unless it has failed."""
    for session in list(_with_hosts):
        session._tell_hosts(getattr(sys, "last_value", None))
        session.close()


def _wait_for_hosts(session: Any) -> None:
    """Has the session left its hosts when the program ends."""
    if not _with_hosts:
        # Processes that multiprocessing has started call this, and not what atexit knows.
        multiprocessing.util.Finalize(None, _leave_hosts, exitpriority=0)
    _with_hosts.add(session)


class _LearnerSession(SessionState):
    """What both kinds of session share; see `TensorBowSession`."""

    _session: Any = None  # after an early error, too: __del__ looks at both
    _closed = True

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
        self._asks_for_memory = False
        self._checked_memory = False
        self._variable_bytes = (-1, 0)  # of that version of the graph
        self._last_counts = {}
        self._hosts: Any = None
        self._chosen = ""
        self._tuning_log = TuningLog()
        self._runs_to_log = 1
        if target:
            super().__init__(target, graph, config=config)  # checks its type, too
            self._native = Remote()
            self._checked_names = self._checked_memory = True  # nothing is divided
            warn(
                f"The session's target {target!r} is a remote server: its runs are those of a "
                "stock session. Learners need a local session (an empty target)."
            )
            return
        # As in a stock session: device_count={"GPU": 0} keeps it off the GPUs.
        counts = config.device_count if isinstance(config, tf.compat.v1.ConfigProto) else {}
        off_gpus = "GPU" in counts and counts["GPU"] == 0
        # GPUs have allocators with limits that ask for themselves.
        self._asks_for_memory = off_gpus or _native.num_accelerators() == 0
        self._checked_memory = not self._asks_for_memory
        seed = getattr(graph or tf.compat.v1.get_default_graph(), "seed", None)
        number = options.deposit(0 if off_gpus else None, seeded=seed is not None)
        try:
            super().__init__(f"tensorbow://{number}", graph, config=config)
        finally:
            _native.withdraw_options(number)
        self._native = _native.SessionHandle(number)
        if options.other_hosts is not None:
            self._hosts = options.other_hosts.join()
            _wait_for_hosts(self)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if not isinstance(error, tf.errors.OutOfRangeError):
            self._tell_hosts(error)
        super().__exit__(kind, error, trace)

    def _tell_hosts(self, error: BaseException | None) -> None:
        """Ends the cluster for all hosts, if the program of this one has failed."""
        if error is None or self._hosts is None:
            return
        last = (str(error).strip().splitlines() or [""])[-1]
        self._hosts.fail(f"host {self._hosts.rank} has failed: {type(error).__name__}: {last}")
        _with_hosts.discard(self)
        # To a process that has ended nobody can ask why.
        self._hosts.await_told_others()

    def _extend_graph(self) -> None:
        # In every run: get_collection_ref() takes a lock.
        trainable = self._graph._collections.get(_TRAINABLE, ())
        if len(trainable) != self._num_trainable:
            self._num_trainable = len(trainable)
            operations = (getattr(variable, "op", None) for variable in trainable)
            self._native.add_trainable([op.name for op in operations if op is not None])
            if self._graph.seed is not None:
                self._keep_learners()
        # TensorFlow asks under a lock, in Python, in every run.
        version = self._graph.version
        if version != self._extended_to:
            super()._extend_graph()
            self._extended_to = version

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

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> Any:
        """As TensorFlow's: a partial run is executed on the central model."""
        handle = super().partial_run_setup(fetches, feeds)
        self._warn()
        return handle

    def explain(self, fetches: Any, feed_dict: Any = None) -> Explanation:
        """What `run(fetches, feed_dict)` would do, and why; nothing is trained or written.

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

    def _new_plan(
        self, key: Any, fetches: Any, feeds: dict[Any, Any], feed_dict: dict[Any, Any]
    ) -> RunPlan:
        """A plan, kept if `key` stands for it: `feeds` are `feed_dict` flattened."""
        plan = RunPlan(self._graph, fetches, feeds)
        flat = len(feeds) == len(feed_dict) and all(a is b for a, b in zip(feeds, feed_dict))
        if plan.sparse_feeds:
            self._native.add_sparse_feeds(plan.sparse_feeds)
        if not self._checked_memory:
            self._check_memory(plan)
        if key is not None and flat and plan.is_reusable:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def _check_memory(self, plan: RunPlan) -> None:
        """Before learners are made: whether there is memory for what they keep.

        Raises:
          tf.errors.ResourceExhaustedError: if there is not, and their number is the user's.
        """
        if self.iterations > 0:
            self._checked_memory = True
            return
        version, found = self._variable_bytes
        if version != self._graph.version:
            found = memory.variable_bytes(self._graph.get_operations())
            self._variable_bytes = (self._graph.version, found)
        learners, available = self._native.num_learners, memory.available_bytes()
        if available is None or not memory.may_be_short(found, learners, available):
            return
        # It might not fit. So what does the run need?
        self._extend_graph()
        if not plan.has_tasks(self._native):
            return
        needs = self._needs_of(plan)
        fit = memory.learners_to_have(needs, learners, available, self._options)
        self._checked_memory = True
        if fit == learners:
            return
        warn(
            "Memory is short, so that fewer learners train. "
            f"{memory.advice(needs, learners, available)}"
        )
        threads = self._options.threads_per_learner or (cores() // fit if fit > 1 else None)
        self._native.set_learners(fit, as_list(threads))

    def _needs_of(self, plan: RunPlan) -> memory.Needs:
        """What learners keep who execute a run."""
        trainable = (getattr(v, "op", None) for v in self._graph._collections.get(_TRAINABLE, ()))
        return memory.needs_of(
            [*(tensor.op for tensor in plan.fetches), *plan.targets],
            [op.name for op in trainable if op is not None],
            self.synchroniser,
        )

    def _check_memory_of_more(self, learners: int) -> None:
        runs = [plan for plan in self._plans.values() if plan.prepared is not None]
        available = memory.available_bytes()
        if learners <= 0 or not runs or not self._asks_for_memory or available is None:
            return
        needed = max(self._needs_of(plan).replica_bytes for plan in runs)
        fit = available // max(1, needed)
        if learners > fit:
            raise tf.errors.ResourceExhaustedError(
                None,
                None,
                "set_learners: memory is short for so many learners. Make fewer, or give this "
                f"process more memory: {learners} more need {memory.size(learners * needed)}, and "
                f"it may use {memory.size(available)} more, enough for {fit} of them.",
            )

    def _make_callable_from_options(self, callable_options: Any) -> Any:
        """As TensorFlow's: what Keras 2 trains by."""
        execute = super()._make_callable_from_options(callable_options)

        def execute_and_warn(*arguments: Any, **keywords: Any) -> Any:
            self._check_open()
            values = execute(*arguments, **keywords)
            self._warn()
            return values

        return execute_and_warn

    def _is_divided(self, plan: RunPlan, feed: str) -> bool:
        """Whether learners divide that feed of the run among their tasks."""
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
        self._runs_to_log -= 1
        if self._runs_to_log == 0:
            self._log_tuning()
        return values

    def _log_tuning(self) -> None:
        """Now and then: a search goes on as long as the session trains."""
        self._runs_to_log = _RUNS_BETWEEN_LOGS
        if self._tuning_log.is_read and self._native.tunes_learners:
            self._tuning_log.tell(self.tuning)

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
            self._warn_of_unknown_names()
        return values

    def _call_tf_sessionrun(
        self, options: Any, feed_dict: Any, fetch_list: Any, target_list: Any, run_metadata: Any
    ) -> Any:
        values = pywrap_tf_session.TF_SessionRun_wrapper(
            self._session, options, feed_dict, fetch_list, target_list, run_metadata
        )
        self._warn()
        return values


_OPTIONS = tuple(field.name for field in dataclasses.fields(Options))


@suggests_names(*_OPTIONS)
class TensorBowSession(_LearnerSession, tf.compat.v1.Session):
    """A `tf.compat.v1.Session` whose training steps run on several learners.

    Programs need no change but the class. Runs that train are divided among the
    learners by the rows that are fed or taken from an input pipeline; initialisers,
    assignments and restores run once and reach every learner; everything else, evaluation
    and `tf.compat.v1.train.Saver` included, sees the central model, the learners'
    consistent average.

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
