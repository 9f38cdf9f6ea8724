"""Sparse data sets as tf.data pipelines."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.eager import context, execute

from tensorbow._runtime.checks import is_int, is_one_of
from tensorbow.data import _libsvm


def libsvm(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    batch_size: int,
    *,
    features: int | None = None,
    labels: int | None = None,
    zero_based: bool | None = None,
    unlabelled: Literal["error", "keep"] = "error",
    shuffle: int = 0,
    seed: int | None = None,
    form: Literal["sparse", "ragged"] = "sparse",
) -> tf.data.Dataset:
    """Returns a data set of rows of files in the LIBSVM format with any number of labels, streamed.

    A line is a row: `l1,l2,… f:v f:v …`, with labels from 0 and features in ascending order;
    `#` and what follows is ignored. Files may begin with a header as those of the extreme
    classification repository do, `rows features labels`, and may be compressed (gzip, bzip2,
    xz). Every pass over the data set opens the files again and reads them block by block.
    Nothing is skipped: a line that is not a row ends the data set with an error
    that names it.

    Args:
      paths: of one file or more, in order.
      batch_size: rows of an element; the last one may have fewer.
      features: columns; needed without a header.
      labels: how many there are; needed without a header.
      zero_based: whether the first feature is 0 or 1; None is 0 in files with a header and 1 in
        files without.
      unlabelled: whether a row without labels is an error.
      shuffle: 0 for the order of the files; else rows are shuffled within blocks of so many.
      seed: of the shuffling; None is another order every time. With a seed every pass has the
        same order.
      form: of the elements, see below.

    Returns:
      A data set of pairs, for "sparse" `SparseTensor`s: the rows, float32 [rows, features], and
      their labels, float32 [rows, labels] with a one for each. For "ragged" the rows are a
      pair, columns (int64) and values (float32), and labels are int64; all
      `RaggedTensor`s [rows, None].

    Raises:
      TypeError, ValueError: for arguments that are not one of these, or headers that contradict
        them.
      FileNotFoundError: if there is no such file.
      tf.errors.InvalidArgumentError: during a pass, with the path, the number of the line
        and what is wrong with it.

    Example:
      >>> rows = tensorbow.data.libsvm("train.txt.gz", batch_size=256, shuffle=100_000)
      >>> for x, y in rows:
      ...     print(x.dense_shape, tf.sparse.to_dense(y))
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    names = [str(pathlib.Path(path)) for path in paths]
    if not names:
        raise ValueError("libsvm: got no paths, wanted at least one")
    for name, value, low in (
        ("batch_size", batch_size, 1),
        ("features", features, 1),
        ("labels", labels, 1),
        ("shuffle", shuffle, 0),
    ):
        if value is None and name in ("features", "labels"):
            continue
        if not is_int(value) or value < low:
            raise ValueError(f"libsvm: {name} must be an int of at least {low}, got {value!r}")
    if not is_one_of(unlabelled, "error", "keep"):
        raise ValueError(f'libsvm: unlabelled must be "error" or "keep", got {unlabelled!r}')
    if not is_one_of(form, "sparse", "ragged"):
        raise ValueError(f'libsvm: form must be "sparse" or "ragged", got {form!r}')
    files = _libsvm.Files(names, features, labels, zero_based, unlabelled)

    def groups() -> Iterator[_libsvm.Rows]:
        rows = files.blocks()
        if shuffle:
            rows = _libsvm.shuffled(rows, shuffle, np.random.default_rng(seed))
        return _libsvm.in_groups(rows, batch_size)

    def arrays() -> Iterator[tuple[np.ndarray, ...]]:
        return ((r.ends, r.columns, r.values, r.label_ends, r.labels) for r in groups())

    ints, floats = tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], tf.float32)
    # Python hands over many batches at once.
    compressed = tf.data.Dataset.from_generator(
        arrays, output_signature=(ints, ints, floats, ints, ints)
    )
    if form == "sparse":
        return _SparseBatches(compressed, batch_size, files.features, files.labels)

    def batches(*group: Any) -> tf.data.Dataset:
        rows = tf.minimum(tf.shape(group[0], tf.int64)[0] - 1, batch_size)
        return tf.data.Dataset.from_tensor_slices(_ragged(rows, *group))

    return compressed.flat_map(batches)


def _ragged(rows: Any, ends: Any, columns: Any, values: Any, label_ends: Any, labels: Any) -> Any:
    """Returns ragged tensors [batches, rows, None]."""
    batch_ends = tf.range(0, tf.shape(ends, tf.int64)[0], rows)

    def batches(flat: Any, ends: Any) -> Any:
        return tf.RaggedTensor.from_nested_row_splits(flat, [batch_ends, ends], validate=False)

    return (batches(columns, ends), batches(values, ends)), batches(labels, label_ends)


class _SparseBatches(tf.data.Dataset):
    """Compressed sparse rows, with ones for their labels, as batches of sparse tensors.

    Args:
      groups: of elements where rows end, their columns and values, where labels end, labels.
      batch_size: rows of an element; the last one of a group may have fewer.
      features, labels: columns of the two sparse tensors.
    """

    def __init__(
        self, groups: tf.data.Dataset, batch_size: int, features: int, labels: int
    ) -> None:
        self._groups = groups
        self._columns = (features, labels)
        name = "TensorBowSparseBatchesDataset"
        inputs = [tf.data.experimental.to_variant(groups), tf.constant(batch_size, tf.int64)]
        if tf.executing_eagerly():
            attributes = ("num_columns", features, "num_labels", labels)
            (variant,) = execute.execute(name, 1, inputs, attributes, context.context())
        else:
            numbers = {
                "num_columns": attr_value_pb2.AttrValue(i=features),
                "num_labels": attr_value_pb2.AttrValue(i=labels),
            }
            graph = tf.compat.v1.get_default_graph()
            variant = graph.create_op(name, inputs, [tf.variant], attrs=numbers).outputs[0]
        super().__init__(variant)

    def _inputs(self) -> list[tf.data.Dataset]:
        return [self._groups]

    @property
    def element_spec(self) -> tuple[tf.SparseTensorSpec, ...]:
        """The specs of the rows and of their labels."""
        return tuple(tf.SparseTensorSpec([None, n], tf.float32) for n in self._columns)
