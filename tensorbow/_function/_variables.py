"""Variables of eager code in a session: the session's central variable is the eager one.

Nothing is copied, and reads and writes need no report: the session's resource manager holds the
object of the eager handle (cc/replicas/offered_variables.h).
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.eager import context, execute
from tensorflow.python.ops import gen_resource_variable_ops as variable_ops

from tensorbow._function._fallback import FallbackError
from tensorbow._function._turns import Turn

_EAGER = "_tensorbow_eager"  # cc/graph/op_facts.h
_MIRRORS = "_tensorbow_mirrors"  # tensorbow/keras/_variables.py
_offers = itertools.count()


def is_variable(handle: Any) -> bool:
    """Returns whether an eager resource is a variable."""
    data = getattr(handle, "_handle_data", None)
    return data is not None and data.is_set and len(data.shape_and_type) == 1


class EagerVariables:
    """The eager variables that a session shares.

    Args:
      session: a `TensorBowSession`.

    Attributes:
      turn: of the session's runs.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._known: dict[int, tuple[Any, tf.Tensor]] = {}  # by id of the eager handle
        self.turn = Turn()

    def add(self, handle: Any, variable: Any) -> tf.Tensor:
        """Returns the handle in the session's graph for an eager one.

        Args:
          handle: of the variable, eager.
          variable: the `tf.Variable`; None if only the handle is known.

        Raises:
          FallbackError: for a variable that a session cannot share.
        """
        known = self._known.get(id(handle))
        if known is not None:
            return known[1]
        data = handle._handle_data.shape_and_type[0]
        dtype, shape = tf.as_dtype(data.dtype), tf.TensorShape(data.shape)
        name = variable.name.split(":")[0] if variable is not None else "variable"
        if dtype in (tf.string, tf.variant, tf.resource):
            raise FallbackError(f"the variable {name!r} holds elements of type {dtype.name}")
        if variable is not None and _MIRRORS in vars(variable):
            raise FallbackError(f"the variable {name!r} belongs to a replicated Keras model")
        if "GPU" in handle.backing_device:
            raise FallbackError(f"the variable {name!r} is on {handle.backing_device}")
        number = next(_offers)
        with context.eager_mode(), tf.device("CPU:0"):
            inputs = [handle, tf.constant(number, tf.int64)]
            execute.execute(b"TensorBowOfferVariable", 0, inputs, (), context.context())
        graph = self._session.graph
        with graph.as_default(), tf.device(None):
            name = graph.unique_name(name.lstrip("_") or "variable")
            inner = variable_ops.var_handle_op(
                dtype=dtype, shape=shape, shared_name=name, name=name
            )
        inner.op._set_attr(_EAGER, attr_value_pb2.AttrValue(b=True))
        self._session._native.adopt_variable(name, number)
        if variable is not None and variable.trainable:
            graph.add_to_collection(tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES, inner)
        self._known[id(handle)] = (handle, inner)
        self.turn.add(id(handle))  # the handle stays alive as long as this object
        return inner


def watch(variables: Any) -> list[Any]:
    """Returns weak references to variables, by which one that has been deleted is noticed."""
    return [weakref.ref(variable) for variable in variables]
