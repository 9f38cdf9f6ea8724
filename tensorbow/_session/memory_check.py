"""Checks that a session makes before its learners take memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from tensorbow._runtime.messages import warn
from tensorbow._session import memory
from tensorbow._session.layout import as_list
from tensorbow._session.plan import RunPlan
from tensorbow.options import Options, cores
from tensorbow.synchronisers import Synchroniser

_TRAINABLE = tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES


class MemoryCheck:
    """The memory check of a session: fewer learners, or an error, if memory is short.

    Args:
      native: the handle of the native session, or its stand-in.
      graph: the session's.
      options: the session's.
      is_needed: false if the devices of the learners check their own memory.

    Attributes:
      is_done: true if the first learning run needs no check any more.
    """

    def __init__(self, native: Any, graph: tf.Graph, options: Options, is_needed: bool) -> None:
        self._native = native
        self._graph = graph
        self._options = options
        self._is_needed = is_needed
        self._variable_bytes = (-1, 0)  # of that version of the graph
        self.is_done = not is_needed

    def check(
        self, plan: RunPlan, synchroniser: Synchroniser | str, extend_graph: Callable[[], None]
    ) -> None:
        """Lowers the number of learners, before they are made, if memory is short.

        Args:
          plan: the run that is next.
          synchroniser: of the session.
          extend_graph: extends the native session's graph to the present one.

        Raises:
          tf.errors.ResourceExhaustedError: if memory is short for a number of the user's.
        """
        if self._native.iterations > 0:
            self.is_done = True
            return
        version, found = self._variable_bytes
        if version != self._graph.version:
            found = memory.variable_bytes(self._graph.get_operations())
            self._variable_bytes = (self._graph.version, found)
        learners, available = self._native.num_learners, memory.available_bytes()
        if available is None or not memory.may_be_short(found, learners, available):
            return
        extend_graph()
        if not plan.has_tasks(self._native):
            return
        needs = self._needs_of(plan, synchroniser)
        fit = memory.learners_to_have(needs, learners, available, self._options)
        self.is_done = True
        if fit == learners:
            return
        warn(
            "Memory is short, so that fewer learners train. "
            f"{memory.advice(needs, learners, available)}"
        )
        threads = self._options.threads_per_learner or (cores() // fit if fit > 1 else None)
        self._native.set_learners(fit, as_list(threads))

    def check_more(
        self, learners: int, plans: Iterable[RunPlan], synchroniser: Synchroniser | str
    ) -> None:
        """Raises ResourceExhaustedError if memory is short for more learners.

        Args:
          learners: their number on each device; 0 or less needs no memory.
          plans: the runs that have been executed.
          synchroniser: of the session.
        """
        runs = [plan for plan in plans if plan.prepared is not None]
        available = memory.available_bytes()
        if learners <= 0 or not runs or not self._is_needed or available is None:
            return
        needed = max(self._needs_of(plan, synchroniser).replica_bytes for plan in runs)
        fit = available // max(1, needed)
        if learners > fit:
            raise tf.errors.ResourceExhaustedError(
                None,
                None,
                "set_learners: memory is short for so many learners. Make fewer, or give this "
                f"process more memory: {learners} more need {memory.size(learners * needed)}, and "
                f"it may use {memory.size(available)} more, enough for {fit} of them.",
            )

    def _needs_of(self, plan: RunPlan, synchroniser: Synchroniser | str) -> memory.Needs:
        trainable = (getattr(v, "op", None) for v in self._graph._collections.get(_TRAINABLE, ()))
        return memory.needs_of(
            [*(tensor.op for tensor in plan.fetches), *plan.targets],
            [op.name for op in trainable if op is not None],
            synchroniser,
        )
