"""Reads files in the LIBSVM format, block by block, into compressed sparse rows."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import zlib
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import numpy as np

from tensorbow import _native
from tensorbow._runtime.messages import count

# The text that is parsed at once, and the values of a group of batches. Large enough to hide
# calls between TensorFlow and Python (0.2 ms a group), small enough for the allocator to use
# memory again: larger arrays go back to the system, which takes longer.
BLOCK_BYTES = 3 << 16
_GROUP_VALUES = 1 << 14
_MAGIC = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}


class _Header(NamedTuple):
    rows: int
    features: int
    labels: int


class Rows:
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
    def of(parsed: tuple[np.ndarray, ...]) -> Rows:
        ends, columns, values, label_ends, labels = parsed
        return Rows(np.append(0, ends), columns, values, np.append(0, label_ends), labels)

    def slice(self, begin: int, end: int) -> Rows:
        first, last = self.ends[begin], self.ends[end]
        first_label, last_label = self.label_ends[begin], self.label_ends[end]
        return Rows(
            self.ends[begin : end + 1] - first,
            self.columns[first:last],
            self.values[first:last],
            self.label_ends[begin : end + 1] - first_label,
            self.labels[first_label:last_label],
        )

    @staticmethod
    def together(parts: list[Rows]) -> Rows:
        if len(parts) == 1:
            return parts[0]

        def ends(each: list[np.ndarray]) -> np.ndarray:
            before = np.cumsum([0] + [part[-1] for part in each[:-1]])
            return np.concatenate([[0], *(part[1:] + n for part, n in zip(each, before))])

        return Rows(
            ends([part.ends for part in parts]),
            np.concatenate([part.columns for part in parts]),
            np.concatenate([part.values for part in parts]),
            ends([part.label_ends for part in parts]),
            np.concatenate([part.labels for part in parts]),
        )

    def in_order(self, order: np.ndarray) -> Rows:
        """Returns the rows of these numbers."""
        at, ends = _gathered(self.ends, order)
        labels_at, label_ends = _gathered(self.label_ends, order)
        return Rows(ends, self.columns[at], self.values[at], label_ends, self.labels[labels_at])


def _gathered(ends: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the places of the elements of these rows, and their ends when they are together."""
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
    """Returns the three numbers of a file's first line, if it is a header."""
    parts = line.split()
    if len(parts) != 3 or any(b":" in part or b"," in part for part in parts):
        return None
    try:
        rows, features, labels = (int(part) for part in parts)
    except ValueError:
        return None
    return _Header(rows, features, labels)


class Files:
    """Files, with the facts of their headers."""

    def __init__(
        self,
        paths: list[str],
        features: int | None,
        labels: int | None,
        zero_based: bool | None,
        unlabelled: str,
        unknown: int | None = None,
    ) -> None:
        """`unknown`: what features and labels are without a header and without being given."""
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
        features = unknown if features is None else features
        labels = unknown if labels is None else labels
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

    def blocks(self) -> Iterator[Rows]:
        """Yields all rows, in blocks of any size."""
        for path, header in zip(self.paths, self._headers):
            rows = 0
            for block in self._blocks_of(path, header is not None):
                rows += len(block)
                yield block
            if header is not None and rows != header.rows:
                raise ValueError(
                    f"libsvm: the header of {path} says {count(header.rows, 'row')}, and it has "
                    f"{rows}"
                )

    def _blocks_of(self, path: str, has_header: bool) -> Iterator[Rows]:
        line, rest = 1, b""
        with _open(path) as file:
            if has_header:
                file.readline()
                line = 2
            while True:
                with _damage_told(path, line):
                    text = file.read(BLOCK_BYTES)
                end = text.rfind(b"\n") + 1
                if text and end == 0:
                    rest += text
                    continue
                whole = b"".join((rest, memoryview(text)[:end]))
                rest = text[end:]
                if whole:
                    line, block = self._parse(path, whole, line)
                    if len(block) > 0:
                        yield block
                if not text:
                    return

    def _parse(self, path: str, text: bytes, line: int) -> tuple[int, Rows]:
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
        return line, Rows.of(tuple(parsed))


def shuffled(blocks: Iterator[Rows], rows: int, rng: np.random.Generator) -> Iterator[Rows]:
    """Yields the rows in random order within blocks of that size."""
    for group in _in_multiples(blocks, rows):
        parts = range(0, len(group), rows)
        orders = [p + rng.permutation(min(rows, len(group) - p)) for p in parts]
        yield group.in_order(np.concatenate(orders))


def _in_multiples(blocks: Iterator[Rows], rows: int) -> Iterator[Rows]:
    """Yields the rows in groups of a multiple of `rows`, but the last one."""
    waiting: list[Rows] = []
    count = 0
    for block in blocks:
        waiting.append(block)
        count += len(block)
        if count < rows:
            continue
        group = Rows.together(waiting)
        ready = count - count % rows
        yield group.slice(0, ready) if ready < count else group
        waiting = [group.slice(ready, count)] if ready < count else []
        count -= ready
    if count > 0:
        yield Rows.together(waiting)


def in_groups(rows: Iterator[Rows], batch_size: int) -> Iterator[Rows]:
    """Yields the rows in groups of whole batches, each of about _GROUP_VALUES values; the last
    one may be a part of a batch."""
    for group in _in_multiples(rows, batch_size):
        values_of_batch = max(1, len(group.columns) * batch_size // len(group))
        size = batch_size * max(1, _GROUP_VALUES // values_of_batch)
        whole = len(group) - len(group) % batch_size
        for begin in range(0, whole, size):
            yield group.slice(begin, min(whole, begin + size))
        if whole < len(group):
            yield group.slice(whole, len(group))
