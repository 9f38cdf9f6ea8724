"""Checks of arguments: kinds of values, and rules with their error texts."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Any, TypeGuard


def is_number(value: object) -> TypeGuard[float]:
    """Returns true for ints and floats, false for bools."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_int(value: object) -> TypeGuard[int]:
    """Returns true for ints, false for bools."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_one_of(value: object, *choices: str) -> bool:
    """Returns true if a value of any type is one of these texts; an array equals none."""
    return isinstance(value, str) and value in choices


def is_list(value: Any) -> TypeGuard[Iterable[Any]]:
    """Returns true if a value can be iterated over; texts and scalar arrays do not count."""
    scalar = getattr(value, "ndim", 1) == 0
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes)) and not scalar


class Rule(abc.ABC):
    """A rule for the values of one argument."""

    @abc.abstractmethod
    def check(self, who: str, name: str, value: Any) -> None:
        """Raises TypeError or ValueError, "{who}: {name} must be …", for a wrong value."""


class Number(Rule):
    """An int within bounds.

    Args:
      low, high: the least and the greatest; None for no bound above.
      or_else: other values that are right: texts and None.
    """

    def __init__(
        self, low: int, high: int | None = None, or_else: tuple[str | None, ...] = ()
    ) -> None:
        self._low, self._high, self._or_else = low, high, or_else
        self._bounds = f"at least {low}" if high is None else f"from {low} to {high}"

    def check(self, who: str, name: str, value: Any) -> None:
        if _is_any(value, self._or_else):
            return
        if not is_int(value):
            wanted = _listed(["an int", *map(_shown, self._or_else)])
            raise TypeError(f"{who}: {name} must be {wanted}, got {value!r}")
        if value < self._low or (self._high is not None and value > self._high):
            raise ValueError(f"{who}: {name} must be {self._bounds}, got {value}")


class Choice(Rule):
    """A text among some, or None if that is among them."""

    def __init__(self, *choices: str | None) -> None:
        self._choices = choices

    def check(self, who: str, name: str, value: Any) -> None:
        if not _is_any(value, self._choices):
            wanted = _listed(map(_shown, self._choices))
            raise ValueError(f"{who}: {name} must be {wanted}, got {value!r}")


class Kind(Rule):
    """A value of one of some types.

    Args:
      types: the types.
      wanted: their names, for the error.
      or_else: a text that is right, too.
    """

    def __init__(self, types: tuple[type, ...], wanted: str, or_else: str = "") -> None:
        self._types, self._wanted, self._or_else = types, wanted, or_else

    def check(self, who: str, name: str, value: Any) -> None:
        if not isinstance(value, self._types) and not _is_any(value, (self._or_else,)):
            raise TypeError(f"{who}: {name} must be {self._wanted}, got {value!r}")


class Elements(Rule):
    """Something that can be iterated over, but no text.

    Args:
      wanted: its name, for the error.
    """

    def __init__(self, wanted: str) -> None:
        self._wanted = wanted

    def check(self, who: str, name: str, value: Any) -> None:
        if not is_list(value):
            raise TypeError(f"{who}: {name} must be {self._wanted}, got {value!r}")


def _is_any(value: object, choices: Iterable[str | None]) -> bool:
    return any(value is None if c is None else is_one_of(value, c) for c in choices)


def _shown(choice: str | None) -> str:
    return "None" if choice is None else f'"{choice}"'


def _listed(parts: Iterable[str]) -> str:
    """Returns "a, b or c"."""
    *first, last = parts
    return f"{', '.join(first)} or {last}" if first else last
