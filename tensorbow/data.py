"""Sparse data sets as tf.data pipelines."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import os
import pathlib
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any, Literal, NamedTuple

import numpy as np
import tensorflow as tf

from tensorbow import _native
from tensorbow._checks import is_int, is_one_of

_BLOCK_BYTES = 1 << 20
_MAGIC = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}


class _Header(NamedTuple):
    rows: int
    features: int
    labels: int


class _Rows:
    """Compressed sparse rows: row i has `columns[ends[i] : ends[i + 1]]`, and so on."""

    def __init__(
        self,
        ends: np.ndarray,
        columns: np.ndarray,
        values: np.ndarray,
        label_ends: np.ndarray,
        labels: np.ndarray,
    ) -> None:
        self.ends, self.columns, self.values = ends, columns, values
        self.label_ends, self.labels = label_ends, labels

    def __len__(self) -> int:
        return len(self.ends) - 1

    @staticmethod
    def of(parsed: tuple[np.ndarray, ...]) -> _Rows:
        ends, columns, values, label_ends, labels = parsed
        return _Rows(np.append(0, ends), columns, values, np.append(0, label_ends), labels)

    def entries(self) -> np.ndarray:
        """The row and column of every value."""
        return _entries(self.ends, self.columns)

    def label_entries(self) -> np.ndarray:
        """The row and number of every label."""
        return _entries(self.label_ends, self.labels)

    def slice(self, begin: int, end: int) -> _Rows:
        first, last = self.ends[begin], self.ends[end]
        first_label, last_label = self.label_ends[begin], self.label_ends[end]
        return _Rows(
            self.ends[begin : end + 1] - first,
            self.columns[first:last],
            self.values[first:last],
            self.label_ends[begin : end + 1] - first_label,
            self.labels[first_label:last_label],
        )

    def then(self, other: _Rows) -> _Rows:
        return _Rows(
            np.concatenate([self.ends, other.ends[1:] + self.ends[-1]]),
            np.concatenate([self.columns, other.columns]),
            np.concatenate([self.values, other.values]),
            np.concatenate([self.label_ends, other.label_ends[1:] + self.label_ends[-1]]),
            np.concatenate([self.labels, other.labels]),
        )

    def in_order(self, order: np.ndarray) -> _Rows:
        """The rows of these numbers."""
        at, ends = _gathered(self.ends, order)
        labels_at, label_ends = _gathered(self.label_ends, order)
        return _Rows(ends, self.columns[at], self.values[at], label_ends, self.labels[labels_at])


def _entries(ends: np.ndarray, columns: np.ndarray) -> np.ndarray:
    entries = np.empty((len(columns), 2), np.int64)
    entries[:, 0] = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    entries[:, 1] = columns
    return entries


def _gathered(ends: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the elements of these rows lie, and where they end when they are together."""
    counts = np.diff(ends)[order]
    new_ends = np.append(0, np.cumsum(counts))
    return np.arange(new_ends[-1]) + np.repeat(ends[order] - new_ends[:-1], counts), new_ends


def _open(path: str) -> IO[bytes]:
    with open(path, "rb") as file:
        magic = file.read(2)
    opener: Any = _MAGIC.get(magic, open)
    return opener(path, "rb")


@contextlib.contextmanager
def _damage_told(path: str, line: int) -> Iterator[None]:
    """Says in which file, and from which line on, reading fails."""
    try:
        yield
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise ValueError(
            f"libsvm: {path}, from line {line} on: {error}; the file is cut off or damaged"
        ) from None


def _header_of(line: bytes) -> _Header | None:
    """What the first line of a file says, if it is a header: three numbers."""
    parts = line.split()
    if len(parts) != 3 or any(b":" in part or b"," in part for part in parts):
        return None
    try:
        rows, features, labels = (int(part) for part in parts)
    except ValueError:
        return None
    return _Header(rows, features, labels)


class _Libsvm:
    """The files, with what is known of them."""

    def __init__(
        self,
        paths: list[str],
        features: int | None,
        labels: int | None,
        zero_based: bool | None,
        unlabelled: str,
    ) -> None:
        self.paths = paths
        self._unlabelled = unlabelled
        self._headers = [self._read_header(path) for path in paths]
        for path, header in zip(paths, self._headers):
            if header is None:
                continue
            for name, told, given in (
                ("features", header.features, features),
                ("labels", header.labels, labels),
            ):
                if given is not None and told != given:
                    raise ValueError(
                        f"libsvm: the header of {path} says {told} {name}, got {name}={given}"
                    )
            features, labels = header.features, header.labels
        if features is None or labels is None:
            raise ValueError(
                f"libsvm: {paths[0]} has no header (rows, features, labels) in its first line; "
                "give features= and labels="
            )
        self.features, self.labels = features, labels
        has_header = self._headers[0] is not None
        self._first = 0 if (has_header if zero_based is None else zero_based) else 1

    def _read_header(self, path: str) -> _Header | None:
        try:
            with _open(path) as file, _damage_told(path, 1):
                line = file.readline()
        except FileNotFoundError:
            raise FileNotFoundError(f"libsvm: there is no file {path!r}") from None
        header = _header_of(line)
        if header is not None and (min(header) < 0 or min(header[1:]) < 1):
            raise ValueError(
                f"libsvm: {path}, line 1: got the header {line.decode().strip()!r}, wanted "
                "numbers of rows, features and labels"
            )
        return header

    def blocks(self) -> Iterator[_Rows]:
        """All rows, in blocks of any size."""
        for path, header in zip(self.paths, self._headers):
            rows = 0
            for block in self._blocks_of(path, header is not None):
                rows += len(block)
                yield block
            if header is not None and rows != header.rows:
                raise ValueError(
                    f"libsvm: the header of {path} says {header.rows} rows, and it has {rows}"
                )

    def _blocks_of(self, path: str, has_header: bool) -> Iterator[_Rows]:
        line, rest = 1, b""
        with _open(path) as file:
            if has_header:
                file.readline()
                line = 2
            while True:
                with _damage_told(path, line):
                    text = file.read(_BLOCK_BYTES)
                whole, newline, begun = (rest + text).rpartition(b"\n")
                if not text:
                    whole, newline, begun = rest, b"", b""
                rest = begun
                if whole or newline:
                    line, block = self._parse(path, whole + newline, line)
                    if len(block) > 0:
                        yield block
                if not text:
                    return

    def _parse(self, path: str, text: bytes, line: int) -> tuple[int, _Rows]:
        try:
            line, *parsed = _native.parse_libsvm(
                text,
                line,
                num_features=self.features,
                num_labels=self.labels,
                first_feature=self._first,
                allows_no_labels=self._unlabelled == "keep",
            )
        except ValueError as error:
            raise ValueError(f"libsvm: {path}, {error}") from None
        return line, _Rows.of(tuple(parsed))


def _batches(
    blocks: Iterator[_Rows], batch_size: int, shuffle: int, rng: np.random.Generator
) -> Iterator[_Rows]:
    """Rows in batches; in random order within blocks of `shuffle` rows, if that is not 0."""
    waiting: _Rows | None = None
    least = max(batch_size, shuffle)
    for block in blocks:
        waiting = block if waiting is None else waiting.then(block)
        if len(waiting) < least:
            continue
        ready = len(waiting) - len(waiting) % (least if shuffle else batch_size)
        yield from _cut(waiting.slice(0, ready), batch_size, shuffle, rng)
        waiting = waiting.slice(ready, len(waiting))
    if waiting is not None and len(waiting) > 0:
        yield from _cut(waiting, batch_size, shuffle, rng)


def _cut(rows: _Rows, batch_size: int, shuffle: int, rng: np.random.Generator) -> Iterator[_Rows]:
    if shuffle:
        parts = range(0, len(rows), shuffle)
        orders = [p + rng.permutation(min(shuffle, len(rows) - p)) for p in parts]
        rows = rows.in_order(np.concatenate(orders))
    for begin in range(0, len(rows), batch_size):
        yield rows.slice(begin, min(len(rows), begin + batch_size))


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
    """Rows of files in the LIBSVM format with any number of labels, streamed.

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
    files = _Libsvm(names, features, labels, zero_based, unlabelled)

    def batches() -> Iterator[_Rows]:
        return _batches(files.blocks(), batch_size, shuffle, np.random.default_rng(seed))

    ints = tf.TensorSpec([None], tf.int64)
    floats = tf.TensorSpec([None], tf.float32)
    if form == "ragged":
        return tf.data.Dataset.from_generator(
            lambda: ((r.ends, r.columns, r.values, r.label_ends, r.labels) for r in batches()),
            output_signature=(ints, ints, floats, ints, ints),
        ).map(_ragged)
    entries = tf.TensorSpec([None, 2], tf.int64)
    return tf.data.Dataset.from_generator(
        lambda: ((len(r), r.entries(), r.values, r.label_entries()) for r in batches()),
        output_signature=(tf.TensorSpec([], tf.int64), entries, floats, entries),
    ).map(_sparse_maker(files.features, files.labels))


def _ragged(ends: Any, columns: Any, values: Any, label_ends: Any, labels: Any) -> Any:
    def rows(flat: Any, ends: Any) -> Any:
        return tf.RaggedTensor.from_row_splits(flat, ends, validate=False)

    return (rows(columns, ends), rows(values, ends)), rows(labels, label_ends)


def _sparse_maker(features: int, labels: int) -> Any:
    def make(count: Any, entries: Any, values: Any, label_entries: Any) -> Any:
        def rows(entries: Any, values: Any, width: int) -> Any:
            return tf.SparseTensor(entries, values, tf.stack([count, np.int64(width)]))

        ones = tf.ones_like(label_entries[:, 0], tf.float32)
        return rows(entries, values, features), rows(label_entries, ones, labels)

    return make
