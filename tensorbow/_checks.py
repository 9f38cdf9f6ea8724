"""What a value is, for checks of arguments."""

from __future__ import annotations

from typing import TypeGuard


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def is_one_of(value: object, *choices: str) -> bool:
    """Whether a value of any type is one of these texts; an array is equal to none."""
    return isinstance(value, str) and value in choices
