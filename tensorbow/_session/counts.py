"""Counters of a session that can be read after it is closed."""

from __future__ import annotations

from typing import Any

_NAMES = ("num_learners", "iterations", "learning_tasks", "samples_seen")


class Counts:
    """The counters of a session, and the synchroniser that "auto" became.

    Args:
      native: the handle of the native session, or its stand-in.

    Attributes:
      chosen: the name of the synchroniser as last read; "" if there is none yet.
    """

    def __init__(self, native: Any) -> None:
        self._native = native
        self._last: dict[str, int] = {}
        self.chosen = ""

    def read(self, name: str) -> int:
        """Returns a counter by its name."""
        return self._last[name] if self._last else int(getattr(self._native, name))

    def read_chosen(self) -> str:
        """Returns the name of the synchroniser, from the native session if it is not known."""
        self.chosen = self.chosen or self._native.synchroniser
        return self.chosen

    def keep(self) -> None:
        """Keeps the values of now for the time after closing."""
        self._last = {name: self.read(name) for name in _NAMES}
        self.chosen = self._native.synchroniser
