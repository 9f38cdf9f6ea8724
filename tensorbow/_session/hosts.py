"""The end of sessions that train with other hosts, which would wait for them."""

from __future__ import annotations

import atexit
import multiprocessing.util
import sys
import weakref
from typing import Any

_sessions: weakref.WeakSet[Any] = weakref.WeakSet()


@atexit.register
def _leave_hosts() -> None:
    """Closes all sessions when the program ends: other hosts continue unless it has failed."""
    for session in list(_sessions):
        report_failure(session, getattr(sys, "last_value", None))
        session.close()


def leave_at_exit(session: Any) -> None:
    """Registers a session to leave its hosts when the program ends."""
    if not _sessions:
        # Processes that multiprocessing has started call this instead of atexit's functions.
        multiprocessing.util.Finalize(None, _leave_hosts, exitpriority=0)
    _sessions.add(session)


def report_failure(session: Any, error: BaseException | None) -> None:
    """Ends the cluster of a session for all hosts, if this host's program has failed.

    Args:
      session: its `_hosts` is a `_native.Cluster`, or None.
      error: the program's; None if it has not failed.
    """
    hosts = session._hosts
    if error is None or hosts is None:
        return
    last = (str(error).strip().splitlines() or [""])[-1]
    hosts.fail(f"host {hosts.rank} has failed: {type(error).__name__}: {last}")
    _sessions.discard(session)
    # The other hosts ask this process for the reason: it must not have ended.
    hosts.await_told_others()
