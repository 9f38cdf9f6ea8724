"""Values of variables, of the central model and of learners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

_VARIABLES = ("Variable", "VariableV2", "VarHandleOp")


def operation_of(who: str, graph: tf.Graph, variable: Any) -> tf.Operation:
    """Returns the node of a variable that is given by itself or by name.

    Raises:
      TypeError, ValueError: if it is no variable of the graph; `who` begins the text.
    """
    if isinstance(variable, str):
        try:
            operation = graph.get_operation_by_name(variable.split(":")[0])
        except (KeyError, ValueError):
            raise ValueError(f"{who}: the session's graph has no variable {variable!r}") from None
    else:
        operation = getattr(variable, "op", None)
        if not isinstance(operation, tf.Operation):
            raise TypeError(
                f"{who}: variable must be a variable of the session's graph or the name of "
                f"one, got {variable!r}"
            )
        if operation.graph is not graph:
            raise ValueError(f"{who}: {operation.name!r} is of another graph than the session's")
    if operation.type not in _VARIABLES:
        raise ValueError(f"{who}: {operation.name!r} is a {operation.type}, wanted a variable")
    return operation


def check_learner(learner: Any, num_learners: int) -> int:
    """Returns the index of a learner as an int.

    Raises:
      TypeError, ValueError: if there is no such learner.
    """
    if isinstance(learner, bool) or not isinstance(learner, (int, np.integer)):
        raise TypeError(f"learner_value: learner must be an int, got {learner!r}")
    if not 0 <= learner < num_learners:
        raise ValueError(
            f"learner_value: learner must be from 0 to {num_learners - 1}, got {learner}"
        )
    return int(learner)


def read(
    native_read: Callable[[str], bytes],
    run: Callable[[Any], Any],
    variable: Any,
    operation: tf.Operation,
) -> Any:
    """Returns a value of a variable; the session's own if no learning run has reached it.

    Args:
      native_read: reads the serialized value by the name of the variable.
      run: fetches a tensor in the session.
      variable: the variable, or its name.
      operation: its node.
    """
    try:
        serialized = native_read(operation.name)
    except tf.errors.NotFoundError:
        return run(_fetch_of(variable, operation))
    return tf.make_ndarray(tensor_pb2.TensorProto.FromString(serialized))


def _fetch_of(variable: Any, operation: tf.Operation) -> Any:
    """Returns the element of the graph that has the value of a variable."""
    if not isinstance(variable, str):
        return variable
    if operation.type != "VarHandleOp":
        return operation.outputs[0]
    for consumer in operation.outputs[0].consumers():
        if consumer.type == "ReadVariableOp" and not consumer.control_inputs:
            return consumer.outputs[0]
    raise ValueError(f"learner_value: nothing in the graph reads variable {operation.name!r}")
