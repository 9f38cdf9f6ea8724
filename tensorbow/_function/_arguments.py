"""The arguments of a call: which trace they need, and the tensors among them."""

from __future__ import annotations

import collections
import dataclasses
import weakref
from collections.abc import Hashable
from typing import Any

import numpy as np
import tensorflow as tf

from tensorbow._function._fallback import FallbackError

# Types of Python values; a step is traced for each value.
_VALUES = (type(None), bool, int, float, complex, str, bytes, tf.DType, type)


class _Identity:
    """An object as part of a key: equal to itself only, and not kept alive."""

    def __init__(self, value: Any) -> None:
        self._hash = id(value)
        try:
            self._get: Any = weakref.ref(value)
        except TypeError:
            self._get = lambda: value

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Identity):
            return NotImplemented
        value = self._get()
        return value is not None and value is other._get()


@dataclasses.dataclass
class Arguments:
    """The arguments of one call.

    Attributes:
      key: equal for calls that share a trace.
      leaves: tensors, variables and iterators, in the order of `tf.nest`.
    """

    key: Hashable
    leaves: list[Any]


class Reader:
    """Reads arguments. Not to be used for a second call.

    Args:
      any_rows: tensors with as many rows as the first one have any number of rows.
    """

    def __init__(self, any_rows: bool) -> None:
        self._any_rows = any_rows
        self._rows: int | None = None
        self.leaves: list[Any] = []

    def read(self, args: Any, kwargs: Any) -> Arguments:
        """Returns the arguments of a call.

        Raises:
          FallbackError: for an argument that learners cannot be given.
        """
        return Arguments((self._key(args), self._key(kwargs)), self.leaves)

    def shape_of(self, tensor: Any) -> tuple[int | None, ...]:
        """Returns the shape that the step is traced for."""
        shape: tuple[int | None, ...] = tuple(tensor.shape)
        if not shape or not self._any_rows:
            return shape
        if self._rows is None:
            self._rows = shape[0]
        return (None, *shape[1:]) if shape[0] == self._rows else shape

    def _key(self, value: Any) -> Hashable:
        if isinstance(value, (tf.Tensor, np.ndarray, np.generic)):
            self.leaves.append(value)
            return (value.dtype, self.shape_of(value))
        if isinstance(value, (tf.Variable, tf.data.Iterator)):
            self.leaves.append(value)
            return _Identity(value)
        if isinstance(value, _VALUES):
            return (type(value), value)
        if isinstance(value, dict) and type(value) in (dict, collections.OrderedDict):
            return (type(value), tuple((k, self._key(value[k])) for k in sorted(value)))
        if isinstance(value, (tuple, list)):
            return (type(value), tuple([self._key(part) for part in value]))
        return self._other_key(value)

    def _other_key(self, value: Any) -> Hashable:
        if isinstance(value, tf.__internal__.CompositeTensor):
            raise FallbackError(f"an argument is a {type(value).__name__}")
        parts = tf.nest.flatten(value)
        if len(parts) == 1 and parts[0] is value:
            return _Identity(value)
        return (type(value), tuple([self._key(part) for part in parts]))


def specs(args: Any, kwargs: Any, any_rows: bool) -> tuple[Any, Any, list[Any]]:
    """Returns the arguments with specs for tensors, and the kind of each leaf."""
    reader = Reader(any_rows)
    leaves: list[Any] = []

    def spec(value: Any) -> Any:
        if isinstance(value, (tf.Tensor, np.ndarray, np.generic)):
            value = tf.TensorSpec(reader.shape_of(value), tf.as_dtype(value.dtype))
        elif not isinstance(value, (tf.Variable, tf.data.Iterator)):
            return value
        leaves.append(value)
        return value

    args, kwargs = tf.nest.map_structure(spec, (args, kwargs))
    return args, kwargs, leaves


def array_of(tensor: Any) -> np.ndarray:
    """Returns the elements of a tensor that is not a leaf of another kind; without a copy."""
    if isinstance(tensor, tf.Tensor):
        array: np.ndarray = np.asarray(tensor._numpy())
        return array
    return np.asarray(tensor)
