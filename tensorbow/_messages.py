"""How users are spoken to: warnings at their own line, misspelt arguments, numbers of things."""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib.util
import inspect
import logging
import os
import sys
import warnings
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any, TypeVar

# Frames of these are between a user's line and what is said about it.
_PACKAGES = ("tensorbow", "tensorflow", "keras", "tf_keras", "tf_slim")
# What people call an argument whose name is too different to be found by its letters.
_SYNONYMS = {
    "learners": "learners_per_device",
    "num_learners": "learners_per_device",
    "threads": "threads_per_learner",
    "sync": "synchroniser",
}

_said: set[str] = set()

log = logging.getLogger("tensorbow")
"""What the library does of its own accord: choices at INFO, what was tried at DEBUG."""


def count(number: int, thing: str) -> str:
    """Returns "1 learner", "2 learners", "1,000 rows"."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


# ------------------------------------------------------------------------------- warnings


class TensorBowWarning(UserWarning):
    """Something about a run that its author should know; each is said once a session."""


@functools.cache
def _inner_files() -> tuple[str, ...]:
    """The beginnings of the file names that are not the user's."""
    found = ["<frozen importlib", contextlib.__file__, functools.__file__]
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            found.append(os.path.join(folder, ""))
    return tuple(found)


def users_frame() -> FrameType:
    """Returns the innermost frame that is neither ours nor TensorFlow's nor Keras's.

    In a thread that has none, it is the outermost one.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_inner_files()):
        frame = frame.f_back
    return frame


def warn(text: str, category: type[Warning] = TensorBowWarning) -> None:
    """Warns at the user's line, and tells the log."""
    log.info(text)
    frame = users_frame()
    warnings.warn_explicit(
        text,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__", "<string>"),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


def first_time(what: str) -> bool:
    """Returns true the first time that a process asks about it."""
    if what in _said:
        return False
    _said.add(what)
    return True


# ------------------------------------------------------------------------ misspelt arguments


def meant(name: str, known: Collection[str]) -> str | None:
    """Returns the name among `known` that somebody meant; None if none is like it."""
    synonym = _SYNONYMS.get(name)
    if synonym in known:
        return synonym
    found = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return found[0] if found else None


def _unknown(who: str, name: str, known: Collection[str], options: Collection[str]) -> str:
    right = meant(name, known)
    if right is not None:
        return f"{who}: there is no argument {name!r}; did you mean {right}=?"
    option = meant(name, options)
    if option is not None:
        return (
            f"{who}: {name!r} is not an argument, {option} is an option; wanted "
            f"options=tensorbow.Options({option}=...)"
        )
    return f"{who}: there is no argument {name!r}; wanted {', '.join(known)}"


Called = TypeVar("Called", bound=Callable[..., Any])


def suggests_names(*options: str) -> Callable[[Called], Called]:
    """Decorates a class or function: a misspelt argument gets the right spelling back.

    Args:
      options: names of Options, for what takes `options=`.
    """

    def decorate(called: Called) -> Called:
        who = called.__name__
        parameters = inspect.signature(called).parameters
        known = [name for name in parameters if name != "self"]
        function: Any = called.__init__ if inspect.isclass(called) else called

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            for name in kwargs:
                if name not in parameters:
                    raise TypeError(_unknown(who, name, known, options))
            return function(*args, **kwargs)

        if not inspect.isclass(called):
            return checked  # type: ignore[return-value]
        called.__init__ = checked  # type: ignore[method-assign]
        return called

    return decorate
