"""Sources of batches for a training step: arrays in memory, `tf.data`, one given batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf
from keras.src.trainers.data_adapters import array_data_adapter, array_slicing, data_adapter
from tensorflow.python.framework.none_tensor import NoneTensorSpec  # tf.NoneTensorSpec from 2.21 on
from tensorflow.python.ops import gen_dataset_ops

from tensorbow.keras._tracing import CannotTraceError


class Source(Protocol):
    """A source of batches; `spec` is the structure of one of them."""

    spec: Any

    def take(self) -> list[np.ndarray] | None:
        """Returns the arrays of the next batch, in the order of `spec`; None after the last one."""


# --------------------------------------------------------------------------- arrays


class ArrayBatches(data_adapter.DataAdapter):
    """Batches of arrays in memory, in the order in which stock Keras hands them out.

    Args:
      inputs: (x,), (x, y) or (x, y, sample_weight); x and y may be nested.
      rows: of one batch.
      shuffle: puts a range of row numbers in another order for each epoch; None keeps it.
    """

    def __init__(self, inputs: Any, rows: int, shuffle: Callable[[tf.Tensor], tf.Tensor] | None):
        self._inputs = inputs
        self.arrays = [np.asarray(a) for a in tf.nest.flatten(inputs)]
        self.num_rows = len(self.arrays[0])
        self.rows = rows
        # Static where stock Keras has a static number of rows.
        static = None if self.num_rows % rows else rows
        self.spec = tf.nest.map_structure(
            lambda a: tf.TensorSpec([static, *np.shape(a)[1:]], np.asarray(a).dtype), inputs
        )
        self._orders = None if shuffle is None else self._order_dataset(shuffle)

    def _order_dataset(self, shuffle: Callable[[tf.Tensor], tf.Tensor]) -> tf.data.Dataset:
        """Orders of the rows; as in Keras's ArrayDataAdapter, so that seeds mean the same."""

        def permutation(_: Any) -> tf.Tensor:
            return shuffle(tf.range(self.num_rows, dtype=tf.int64))

        options = tf.data.Options()
        options.experimental_optimization.apply_default_optimizations = False
        policy = tf.data.experimental.ExternalStatePolicy.IGNORE
        options.experimental_external_state_policy = policy
        return tf.data.Dataset.range(1).map(permutation).with_options(options)

    def __iter__(self) -> ArrayIterator:
        order = None
        if self._orders is not None:
            order = next(iter(self._orders)).numpy()
        return ArrayIterator(self, order)

    def get_tf_dataset(self) -> Any:
        """Returns itself: it is only asked for an iterator."""
        return self

    @property
    def num_batches(self) -> int:
        """Batches of one pass over the rows."""
        return math.ceil(self.num_rows / self.rows)

    @property
    def batch_size(self) -> int:
        """Rows of a batch that is not the last."""
        return self.rows

    @property
    def has_partial_batch(self) -> bool:
        """True if the last batch is smaller."""
        return self.num_rows % self.rows > 0

    @property
    def partial_batch_size(self) -> int | None:
        """Rows of the last batch, if it is smaller."""
        return self.num_rows % self.rows or None


class ArrayIterator:
    """A pass over `ArrayBatches`."""

    def __init__(self, batches: ArrayBatches, order: np.ndarray | None) -> None:
        self._batches = batches
        self._order = order
        self._begin = 0
        self.spec = batches.spec

    def take(self) -> list[np.ndarray] | None:
        """Returns the arrays of the next batch; see `Source`."""
        batches, begin = self._batches, self._begin
        if begin >= batches.num_rows:
            return None
        self._begin = end = begin + batches.rows
        if self._order is None:
            return [array[begin:end] for array in batches.arrays]
        chosen = self._order[begin:end]
        return [array.take(chosen, axis=0) for array in batches.arrays]

    def __iter__(self) -> ArrayIterator:
        return self

    def __next__(self) -> Any:
        """Returns a batch as stock Keras's training step takes it."""
        arrays = self.take()
        if arrays is None:
            raise StopIteration
        return tf.nest.pack_sequence_as(self.spec, arrays)


def array_batches(
    x: Any,
    y: Any,
    sample_weight: Any,
    class_weight: Any,
    batch_size: int | None,
    steps: int | None,
    shuffle: Any,
) -> ArrayBatches | None:
    """Returns batches of the arguments of fit(), if they are dense arrays in memory; else None.

    Raises:
      ValueError: as Keras does, for arrays that do not fit together.
    """
    if shuffle not in (True, False) or not array_data_adapter.can_convert_arrays(
        (x, y, sample_weight)
    ):
        return None
    adapter = array_data_adapter.ArrayDataAdapter(
        x,
        y,
        sample_weight=sample_weight,
        batch_size=batch_size,
        steps=steps,
        shuffle=bool(shuffle),
        class_weight=class_weight,
    )
    sliceable = array_slicing.convert_to_sliceable(adapter._inputs, target_backend="numpy")
    leaves = keras.tree.flatten(sliceable)
    if not all(isinstance(leaf, array_slicing.NumpySliceable) for leaf in leaves):
        return None
    if any(leaf.array.dtype.hasobject or leaf.array.dtype.kind in "USMm" for leaf in leaves):
        return None
    inputs = keras.tree.lists_to_tuples(
        keras.tree.map_structure(lambda leaf: _for_kernels(leaf.array), sliceable)
    )
    # Keras shuffles by a method of its own from 3.16 on.
    keras_shuffle = getattr(adapter, "_tf_shuffle", tf.random.shuffle)
    return ArrayBatches(inputs, adapter.batch_size, keras_shuffle if shuffle else None)


def _for_kernels(array: np.ndarray) -> np.ndarray:
    """Returns the array with contiguous rows, in this machine's byte order."""
    return np.asarray(array, array.dtype.newbyteorder("="), order="C")


# -------------------------------------------------------------------------- tf.data

# Values for None in an element; Keras's adapters use either.
_ABSENT = (NoneTensorSpec, tf.OptionalSpec)


class DatasetSource:
    """The elements of a `tf.data` iterator, read without its Python wrapping."""

    def __init__(self, iterator: Any) -> None:
        self._used: list[int] = []  # of the components of an element
        components = 0
        for leaf in tf.nest.flatten(iterator.element_spec):
            if isinstance(leaf, tf.TensorSpec):
                self._used.append(components)
            elif not isinstance(leaf, _ABSENT):
                raise CannotTraceError(
                    f"the data has a {type(leaf).__name__}; wanted dense tensors"
                )
            components += not isinstance(leaf, NoneTensorSpec)
        self.spec = tf.nest.map_structure(
            lambda leaf: leaf if isinstance(leaf, tf.TensorSpec) else None, iterator.element_spec
        )
        self._iterator = iterator  # owns the resource
        self._types = iterator._flat_output_types
        self._shapes = iterator._flat_output_shapes

    def take(self) -> list[np.ndarray] | None:
        """Returns the arrays of the next batch; see `Source`."""
        try:
            element = gen_dataset_ops.iterator_get_next(
                self._iterator._iterator_resource,
                output_types=self._types,
                output_shapes=self._shapes,
            )
        except tf.errors.OutOfRangeError:
            return None
        return [np.asarray(element[k]._numpy()) for k in self._used]


# ------------------------------------------------------------------- one given batch


class BatchSource:
    """The one batch of train_on_batch."""

    def __init__(self, data: Any) -> None:
        self.data = data
        leaves = [leaf for leaf in tf.nest.flatten(data) if leaf is not None]
        self._arrays: list[np.ndarray] | None = [_for_kernels(np.asarray(a)) for a in leaves]
        self.spec = tf.nest.map_structure(
            lambda leaf: (
                None if leaf is None else tf.TensorSpec(np.shape(leaf), np.asarray(leaf).dtype)
            ),
            data,
        )

    def take(self) -> list[np.ndarray] | None:
        """Returns the arrays of the batch, once; see `Source`."""
        arrays, self._arrays = self._arrays, None
        return arrays
