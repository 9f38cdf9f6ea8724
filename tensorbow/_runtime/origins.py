"""Source lines for warnings: of the user's call, and of the code that made an operation."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

# Packages whose frames lie between a user's line and a warning.
_PACKAGES = ("tensorbow", "tensorflow", "keras", "tf_keras", "tf_slim", "optree", "tree", "wrapt")
# An attribute of a session's graph: traced functions by the scopes they are copied to.
_TRACED = "_tensorbow_traced"


@functools.cache
def _inner_files() -> tuple[str, ...]:
    """Returns the beginnings of file names that are not the user's."""
    found = ["<frozen importlib", contextlib.__file__, functools.__file__]
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            found.append(os.path.join(folder, ""))
    return tuple(found)


def _is_inner(file: str) -> bool:
    return file.startswith(_inner_files())


def users_frame() -> FrameType:
    """Returns the innermost frame that is neither ours nor TensorFlow's nor Keras's.

    In a thread that has none, it is the outermost one.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_inner(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


# ---------------------------------------------------------------------------- operations


def note_traced(graph: Any, scope: str, function: Any) -> None:
    """Records that the operations below a scope of a graph are copies of a traced function's.

    TensorFlow knows only the originals' lines.
    """
    setattr(graph, _TRACED, {**getattr(graph, _TRACED, {}), scope: function})


def with_lines(text: str, graph: Any) -> str:
    """Returns the text with the line of every operation of the graph that it quotes.

    "Mean 'loss' mixes rows" becomes "Mean 'loss' (train.py:41) mixes rows".
    """
    known: set[str] = set()

    def with_line(quoted: re.Match[str]) -> str:
        line = None if quoted[1] in known else _line_of(graph, quoted[1].partition(":")[0])
        known.add(quoted[1])
        return quoted[0] if line is None else f"{quoted[0]} ({line})"

    return re.sub(r"'([^'\s]+)'", with_line, text)


def _line_of(graph: Any, name: str) -> str | None:
    """Returns file and line of the code that made an operation; None if they are unknown."""
    operation = next(_operations(graph, name), None)
    for frame in reversed(getattr(operation, "traceback", None) or ()):
        if not _is_inner(frame.filename):
            # Code typed into a console has no file.
            named = not frame.filename.startswith("<")
            return f"{os.path.basename(frame.filename)}:{frame.lineno}" if named else None
    return None


def _operations(graph: Any, name: str) -> Iterator[Any]:
    """Yields operations that a name may mean, in a graph and its functions, the best first."""
    scope, _, rest = name.partition("/")
    traced = getattr(graph, _TRACED, {}).get(scope)
    if traced is not None:
        yield from _operations(traced, rest)
    operation = _find(graph, name)
    if operation is not None:
        yield operation
    for end in re.finditer("/", name):
        call = _find(graph, name[: end.start()])
        # Conditionals have the number of a branch before the name.
        inner = re.sub(r"^\d+/", "", name[end.end() :])
        for function in _functions(graph, call) if call is not None else ():
            yield from _operations(function, inner)


def _find(graph: Any, name: str) -> Any:
    try:
        return graph.get_operation_by_name(name)
    except (KeyError, ValueError):
        return None


def _functions(graph: Any, call: Any) -> Iterator[Any]:
    """Yields the graphs of the functions that an operation calls."""
    for value in call.node_def.attr.values():
        for function in (value.func, *value.list.func):
            body = getattr(graph._get_function(function.name), "graph", None)
            if body is not None:
                yield body
