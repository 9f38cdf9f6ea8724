"""Numbers of learners and of their threads: checks and conversions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

MAX_LEARNERS = 1024


def check_number(who: str, name: str, value: Any, wanted: str = "an int") -> int:
    """Returns a number of learners or threads as an int, 1 to 1024.

    Raises:
      TypeError, ValueError: if it is not; `wanted` says what else there may be.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{who}: {name} must be {wanted}, got {value!r}")
    if not 1 <= value <= MAX_LEARNERS:
        raise ValueError(f"{who}: {name} must be from 1 to {MAX_LEARNERS}, got {value}")
    return int(value)


def threads_of(who: str, name: str, value: Any) -> int | tuple[int, ...]:
    """Returns the threads of every learner, or of each learner of a device.

    Raises:
      TypeError, ValueError: if it is neither a number nor numbers.
    """
    scalar = getattr(value, "ndim", 1) == 0
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)) or scalar:
        return check_number(who, name, value, "an int, a list of ints or None")
    numbers = tuple(value)
    if not numbers:
        raise ValueError(f"{who}: {name} must have a number for each learner, got an empty list")
    return tuple(check_number(who, f"{name}[{j}]", n) for j, n in enumerate(numbers))


def check_threads_fit(
    who: str, name: str, threads: int | Sequence[int] | None, learners: int
) -> None:
    """Raises ValueError unless there are as many numbers as learners on a device, if several."""
    if threads is not None and not isinstance(threads, int) and len(threads) != learners:
        raise ValueError(
            f"{who}: {name} has a number for each learner of a device; got {list(threads)} for "
            f"{learners}, wanted as many numbers as learners, or one int for all"
        )


def layout_options(
    threads: Any, learners: int | str | None
) -> tuple[int | tuple[int, ...] | None, int | str | None]:
    """Returns `threads_per_learner` and `learners_per_device` as Options keeps them.

    Raises:
      TypeError, ValueError: if the threads are none, or are those of other learners.
    """
    if threads is None:
        return None, learners
    threads = threads_of("Options", "threads_per_learner", threads)
    if learners is None and not isinstance(threads, int):
        learners = len(threads)
    if isinstance(learners, int):
        check_threads_fit("Options", "threads_per_learner", threads, learners)
    return threads, learners


def as_list(threads: int | Sequence[int] | None) -> list[int]:
    """Returns threads as the native runtime takes them: none, one for all learners, or one each."""
    if threads is None:
        return []
    return [threads] if isinstance(threads, int) else list(threads)
