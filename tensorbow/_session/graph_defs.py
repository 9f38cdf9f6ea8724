"""GraphDefs of traced functions on their way into a session's graph."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import tensorflow as tf


def without(definition: Any, dropped: Set[str], awaited: Set[str] = frozenset()) -> Any:
    """Returns a GraphDef without some nodes, and without what ties the others to devices.

    Args:
      definition: the GraphDef, which stays as it is.
      dropped: names of the nodes to leave out.
      awaited: names of nodes for which no other node waits.
    """
    kept = tf.compat.v1.GraphDef()
    kept.CopyFrom(definition)
    del kept.node[:]
    kept.node.extend(node for node in definition.node if node.name not in dropped)
    for node in kept.node:
        node.device = ""
        node.attr.pop("_class", None)
        inputs = [i for i in node.input if not (i[0] == "^" and i[1:] in awaited)]
        if len(inputs) != len(node.input):
            del node.input[:]
            node.input.extend(inputs)
    return kept
