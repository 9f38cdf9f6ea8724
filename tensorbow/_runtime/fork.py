"""Errors for sessions in forked processes, which would hang without them."""

from __future__ import annotations

import os
import weakref
from typing import Any, NoReturn

_sessions: weakref.WeakSet[Any] = weakref.WeakSet()
_had_sessions = False
_forked = False


def note(session: Any) -> None:
    """Remembers a session, whose threads a forked process will not have.

    Raises:
      RuntimeError: if this is such a process.
    """
    global _had_sessions
    check()
    _had_sessions = True
    _sessions.add(session)


def check() -> None:
    """Raises RuntimeError in a process that was forked from one with sessions."""
    if _forked:
        raise RuntimeError(
            "This process was forked from one that had sessions, whose threads it does not have: a "
            "run would wait for ever. Start processes by multiprocessing.get_context('spawn')"
        )


def refuse_closed() -> NoReturn:
    """Raises the error for a session that is closed or lost by a fork."""
    check()
    raise RuntimeError("Attempted to use a closed Session.")


def _in_child() -> None:
    global _forked
    _forked = _had_sessions
    for session in list(_sessions):
        # Closing or deleting the session would wait for its threads.
        session._closed, session._session = True, None


os.register_at_fork(after_in_child=_in_child)
