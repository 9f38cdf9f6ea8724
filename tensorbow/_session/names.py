"""Names of the graph that options contain: warnings for unknown ones."""

from __future__ import annotations

import tensorflow as tf

from tensorbow._runtime.messages import meant, warn
from tensorbow.options import Options


def warn_of_unknown_names(graph: tf.Graph, options: Options) -> None:
    """Warns of names in options that the graph does not have."""
    for option in ("shard", "replicate", "combine", "run_kind"):
        for name in getattr(options, option):
            if not _has(graph, name):
                warn(
                    f"No {'tensor' if ':' in name else 'operation'} {name!r} in the session's "
                    f"graph{_hint(graph, name)}; Options({option}=...) has no effect "
                    "there. Give the tensor itself, or its whole name."
                )


def _has(graph: tf.Graph, name: str) -> bool:
    try:
        graph.as_graph_element(name)
    except (KeyError, ValueError):
        return False
    return True


def _hint(graph: tf.Graph, name: str) -> str:
    """Returns a similar name of the graph as " (did you mean …?)"; "" if there is none."""
    operation, colon, output = name.partition(":")
    known = [op.name for op in graph.get_operations()]
    # A scope that is missing, a different case, or another slip.
    right = next((k for k in known if k.endswith(f"/{operation}")), None)
    right = right or next((k for k in known if k.lower() == operation.lower()), None)
    right = right or meant(operation, known)
    return "" if right is None else f" (did you mean {right + colon + output!r}?)"
