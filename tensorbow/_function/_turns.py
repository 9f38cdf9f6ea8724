"""Turns of steps that share variables: two threads may call two such steps at a time."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Hashable
from typing import Any

_numbers = itertools.count()
_all: weakref.WeakSet[Turn] = weakref.WeakSet()
_changing = threading.Lock()  # any turn's variables, and `_all`


class Turn:
    """A step's right to run, a context manager.

    A step takes the locks of all older ones that share a variable with it, oldest first, and then
    its own. Two steps cannot wait for each other.
    """

    def __init__(self) -> None:
        self._number = next(_numbers)
        self._lock = threading.Lock()
        self._variables: set[Hashable] = set()
        self._older: dict[int, Turn] = {}
        self._locks: tuple[threading.Lock, ...] = (self._lock,)
        self._taken: tuple[threading.Lock, ...] = ()
        with _changing:
            _all.add(self)

    def add(self, variable: Hashable) -> None:
        """Adds a variable of the step. Not to be called in a turn."""
        with _changing:
            self._variables.add(variable)
            others = [turn for turn in _all if turn is not self and variable in turn._variables]
            for other in others:
                older, younger = sorted((self, other), key=lambda turn: turn._number)
                younger._follow(older)
        for other in others:
            with other._lock:  # its run under way may not follow this step yet
                pass

    def _follow(self, older: Turn) -> None:
        if older._number in self._older:
            return
        self._older[older._number] = older
        turns = [*(self._older[number] for number in sorted(self._older)), self]
        self._locks = tuple(turn._lock for turn in turns)

    def __enter__(self) -> None:
        while True:
            locks = self._locks
            taken = 0
            try:
                for lock in locks:
                    lock.acquire()
                    taken += 1
                if locks is self._locks:
                    self._taken = locks
                    return
            except BaseException:
                _release(locks[:taken])
                raise
            _release(locks)

    def __exit__(self, *error: Any) -> None:
        taken, self._taken = self._taken, ()
        _release(taken)


def _release(locks: tuple[threading.Lock, ...]) -> None:
    for lock in reversed(locks):
        lock.release()
