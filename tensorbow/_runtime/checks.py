"""The kinds of values that checks of arguments tell apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeGuard


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def is_one_of(value: object, *choices: str) -> bool:
    """Whether a value of any type is one of these texts; an array is equal to none."""
    return isinstance(value, str) and value in choices


def is_list(value: Any) -> TypeGuard[Iterable[Any]]:
    """Returns whether a value can be iterated over; texts and scalar arrays do not count."""
    scalar = getattr(value, "ndim", 1) == 0
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes)) and not scalar
