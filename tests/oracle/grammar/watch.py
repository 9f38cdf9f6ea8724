"""A time limit for calls that may never return."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def within(seconds: float, work: Callable[[], T]) -> T:
    """Returns the result of `work`; raises AssertionError if that takes longer.

    The thread of hanging work is left behind.
    """
    result: list[Any] = []
    failure: list[BaseException] = []

    def execute() -> None:
        try:
            result.append(work())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=execute, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        frame = sys._current_frames().get(thread.ident or 0)
        where = "".join(traceback.format_stack(frame, limit=6)) if frame else "unknown"
        raise AssertionError(f"no end in {seconds:.0f} s; it waits here:\n{where}")
    if failure:
        raise failure[0]
    return result[0]
