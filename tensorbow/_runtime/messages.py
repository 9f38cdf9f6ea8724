"""Messages to users: warnings at their own line, hints for misspelt arguments, plurals."""

from __future__ import annotations

import difflib
import functools
import inspect
import logging
import warnings
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from tensorbow._runtime.origins import users_frame, with_lines

# Names that people give an argument and that are spelt too differently to be matched.
_SYNONYMS = {
    "learners": "learners_per_device",
    "num_learners": "learners_per_device",
    "threads": "threads_per_learner",
    "sync": "synchroniser",
}

_said: set[str] = set()

log = logging.getLogger("tensorbow")
"""Automatic choices of the library at INFO, trials at DEBUG."""


def count(number: int, thing: str) -> str:
    """Returns "1 learner", "2 learners", "1,000 rows"."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


# ------------------------------------------------------------------------------- warnings


class TensorBowWarning(UserWarning):
    """Something about a run that its author should know; each is said once a session."""


def warn(text: str, category: type[Warning] = TensorBowWarning, graph: Any = None) -> None:
    """Warns at the user's line and logs the text.

    Operations of the graph that the text names get the lines that made them.
    """
    if graph is not None:
        text = with_lines(text, graph)
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
    """Returns the most similar name among `known`; None if none is similar."""
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
