"""Executes a run whole and in uneven shards, and compares every tensor with its type."""

from __future__ import annotations

import dataclasses
import zlib
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from tests.row_types import lockstep
from tests.row_types.lockstep import FAILED, PARTIAL, Handle, Lockstep, Marker
from tests.row_types.runs import LearningRun

CHECKED = ("same", "rows", "zero", *PARTIAL)
ROWS = 12
_VARIABLES = ("VarHandleOp", "VariableV2", "Variable")
_POSITIVE = ("varian", "adam", "rms", "veloc", "accum", "power", "beta", "gamma", "scale", "sigma")


@dataclasses.dataclass
class Outcome:
    """The outcome of one run.

    Attributes:
        checked: names of the tensors that were compared.
        skipped: names of tensors that have a type and were not computed.
        wrong: name, type and finding, in the order of execution.
        stopped: the reason why the run did not continue, or "".
    """

    run: LearningRun
    facts: dict[str, Any]
    checked: set[str] = dataclasses.field(default_factory=set)
    skipped: set[str] = dataclasses.field(default_factory=set)
    wrong: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    failures: dict[str, str] = dataclasses.field(default_factory=dict)
    stopped: str = ""


def shards(rows: int, random: np.random.Generator, least: int = 1) -> tuple[int, ...]:
    """Returns uneven numbers of rows, at least `least`, all different if there are enough."""
    if rows < 2 * least:
        return (rows,)
    if least > 1:
        first = int(random.integers(least, rows - least + 1))
        return (first, rows - first)
    if rows < 4:
        return (1, rows - 1) if rows > 1 else (1,)
    if rows < 6:
        return (1, rows - 1)
    while True:
        cuts = np.sort(random.choice(np.arange(1, rows), 2, replace=False))
        counts = tuple(int(c) for c in np.diff([0, *cuts, rows]))
        if len(set(counts)) == len(counts):
            return counts


def verify(run: LearningRun, seed: int = 0) -> Outcome:
    """Executes a run on random rows and weights, and compares."""
    with context.eager_mode(), tf.device("/cpu:0"):
        return _verify(run, seed)


def _verify(run: LearningRun, seed: int) -> Outcome:
    facts = run.types()
    outcome = Outcome(run, facts)
    random = np.random.default_rng(zlib.crc32(run.name.encode()) + seed)
    rows = run.rows or (ROWS + seed % 3)
    needs_two = any(need["kind"] == "two_rows" for need in facts["needs"])
    counts = shards(rows, random, least=2 if needs_two else 1)
    if len(counts) < 2:
        outcome.stopped = "one row"
        return outcome
    graph = tf.compat.v1.GraphDef.FromString(run.graph)
    given = _given(run, graph, rows, counts, random, seed)
    variables = _variables(graph, random)
    seen = _Seen(outcome, counts, set(given))
    step = Lockstep(graph, facts, counts, given, variables, seen)
    seen.step = step
    ends = sorted({name.split(":")[0] for name in run.fetches} | set(run.targets))
    try:
        step.run(ends)
    except lockstep.ConditionsDifferError as error:
        outcome.stopped = f"learners take another branch at {error}"
        if facts["unknown"] is None:
            outcome.wrong.append((str(error), "a condition", outcome.stopped))
    except lockstep.StoppedError as error:
        outcome.stopped = str(error)
    for name, why in step.faults:
        outcome.wrong.append((name, facts["types"].get(name, {}).get("text", ""), why))
    outcome.failures = step.failures
    typed = {n for n, t in facts["types"].items() if t["kind"] in CHECKED} - set(given)
    outcome.skipped = typed - outcome.checked - seen.uninteresting
    return outcome


# ------------------------------------------------------------------------------ values


def _given(
    run: LearningRun,
    graph: Any,
    rows: int,
    counts: tuple[int, ...],
    random: np.random.Generator,
    seed: int,
) -> dict[str, tuple[Any, ...]]:
    nodes = {node.name: node for node in graph.node}
    sparse = {name for names in run.sparse for name in names}
    given: dict[str, tuple[Any, ...]] = {}
    for name, value in run.feeds.items():
        if name in sparse or name.split(":")[0] not in nodes:
            continue
        array = np.asarray(value) if value is not None else _drawn(nodes, name, random)
        if name in run.divided:
            array = _rows_of(array, rows, random)
        elif array.dtype.kind == "f" and array.size > 1:
            array = array * (1 + 0.05 * random.standard_normal(array.shape))
        elif array.dtype == bool and array.ndim == 0:
            array = np.asarray(array ^ bool(seed % 2))  # the other branch
        if array.dtype.kind == "f":
            array = array.astype(np.float64)
        whole = tf.constant(array)
        if name in run.divided:
            pieces = np.split(array, np.cumsum(counts)[:-1])
            given[name] = (whole, *(tf.constant(piece) for piece in pieces))
        else:
            given[name] = (whole,) * (len(counts) + 1)
    for names in run.sparse:
        given.update(_sparse(run, names, rows, counts, random))
    return given


def _drawn(nodes: dict[str, Any], name: str, random: np.random.Generator) -> np.ndarray:
    node = nodes[name.split(":")[0]]
    dtype = tf.as_dtype(node.attr["dtype"].type).as_numpy_dtype
    shape = [d.size if d.size > 0 else 3 for d in node.attr["shape"].shape.dim]
    return np.asarray(random.random(shape), dtype)


def _rows_of(array: np.ndarray, rows: int, random: np.random.Generator) -> np.ndarray:
    """Draws rows from those of the array; floating-point numbers with noise."""
    if array.shape[0] == 0:
        return np.zeros((rows, *array.shape[1:]), array.dtype)
    chosen = array[random.permutation(np.arange(rows) % array.shape[0])]
    if array.dtype.kind == "f":
        return chosen.astype(np.float64) + 0.1 * random.standard_normal(chosen.shape)
    return chosen


def _sparse(
    run: LearningRun,
    names: list[str],
    rows: int,
    counts: tuple[int, ...],
    random: np.random.Generator,
) -> dict[str, tuple[Any, ...]]:
    """Returns a sparse feed's entries, by their rows."""
    values = np.asarray(run.feeds[names[1]])
    shape = run.feeds.get(names[2])  # None: the run does not need it
    columns = np.max(np.asarray(run.feeds[names[0]]), axis=0) + 1
    shape = np.array(columns if shape is None else shape, np.int64)
    shape[0] = rows
    indices, chosen = [], []
    for row in range(rows):
        entries = random.integers(0, 3)
        columns = random.choice(int(shape[1]), min(entries, int(shape[1])), replace=False)
        for column in np.sort(columns):
            indices.append([row, column, *[0] * (len(shape) - 2)])
            chosen.append(values[random.integers(len(values))])
    at = np.asarray(indices, np.int64).reshape(-1, len(shape))
    of = np.asarray(chosen, values.dtype)
    of = of.astype(np.float64) if of.dtype.kind == "f" else of
    found: list[list[Any]] = [[at], [of], [shape]]
    start = 0
    for count in counts:
        mine = (at[:, 0] >= start) & (at[:, 0] < start + count)
        own = at[mine].copy()
        own[:, 0] -= start
        found[0].append(own)
        found[1].append(of[mine])
        found[2].append(np.asarray([count, *shape[1:]], shape.dtype))
        start += count
    return {name: tuple(tf.constant(v) for v in value) for name, value in zip(names, found)}


def _variables(graph: Any, random: np.random.Generator) -> dict[str, Any]:
    values = {}
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    for node in nodes:
        if node.op not in _VARIABLES or node.attr["shape"].shape.unknown_rank:
            continue
        shape = [max(1, d.size) for d in node.attr["shape"].shape.dim]
        dtype = tf.as_dtype(node.attr["dtype"].type)
        if dtype.is_floating:
            value = random.standard_normal(shape) * 0.3
            if any(word in node.name.lower() for word in _POSITIVE):
                value = np.abs(value) + 0.1
        elif dtype == tf.string:
            value = np.full(shape, b"")
        else:
            value = np.ones(shape, dtype.as_numpy_dtype)
        values[node.name] = tf.constant(value)
    return values


# -------------------------------------------------------------------------- comparison


class _Seen:
    """Compares tensors as they are computed."""

    def __init__(self, outcome: Outcome, counts: tuple[int, ...], given: set[str]) -> None:
        self._outcome, self._counts, self._given = outcome, counts, given
        self._symbols: dict[str, list[int]] = {"#rows": [sum(counts), *counts]}
        self.uninteresting: set[str] = set()
        self.step: Any = None

    def __call__(self, name: str, value: tuple[Any, ...], again: bool) -> None:
        type_ = self._outcome.facts["types"].get(name)
        if type_ is None or name in self._given:
            return
        if isinstance(value[0], (Marker, Handle)) or value[0].dtype.name in (
            "variant",
            "resource",
            "string",
        ):
            if value[0] is not FAILED and value[0] is not None:
                self.uninteresting.add(name)
            return
        kind = type_["kind"]
        if kind not in CHECKED and kind != "sizes":
            return
        if any(v is FAILED for v in value):
            self._wrong(name, type_, f"a learner fails: {self.step.failures}")
            return
        arrays = [np.asarray(v) for v in value]
        try:
            found = self._dims(type_, arrays, again) or self._numbers(type_, arrays, again)
            if kind in CHECKED and not type_["own"] and not found:
                found = self._values(type_, arrays)
        except lockstep.OpenNumberError:
            return
        if kind in CHECKED:
            self._outcome.checked.add(name)
        if found:
            self._wrong(name, type_, found)

    def _wrong(self, name: str, type_: dict[str, Any], found: str) -> None:
        if name not in {w[0] for w in self._outcome.wrong}:
            self._outcome.wrong.append((name, type_["text"], found))

    # ----------------------------------------------------------------------- numbers

    def _expected(self, terms: Any) -> list[int] | None:
        """Returns the number for the whole and for each learner; None if a symbol is open."""
        totals = [0] * (len(self._counts) + 1)
        for coefficient, factors in terms:
            product = [coefficient] * len(totals)
            for symbol, power in factors:
                if symbol not in self._symbols:
                    return None
                product = [p * v**power for p, v in zip(product, self._symbols[symbol])]
            totals = [t + p for t, p in zip(totals, product)]
        return totals

    def _match(self, terms: Any, actual: list[int], again: bool) -> str:
        """Compares a number; an open symbol receives its value."""
        if terms is None:
            return ""
        expected = self._expected(terms)
        single = terms[0][1][0] if len(terms) == 1 and len(terms[0][1]) == 1 else None
        rebinds = again and single is not None and single[0] != "#rows"
        if expected is None or (expected != actual and rebinds):
            if single is None or single[1] != 1 or any(a % terms[0][0] for a in actual):
                return ""
            if single[0][0] != "#" and len(set(actual)) > 1:
                return f"{single[0]} is {actual}"
            self._symbols[single[0]] = [a // terms[0][0] for a in actual]
            return ""
        return "" if expected == actual else f"numbers {actual}, not {expected}"

    def _dims(self, type_: dict[str, Any], arrays: list[np.ndarray], again: bool) -> str:
        dims = type_["dims"]
        if dims is None:
            return ""
        if any(array.ndim != len(dims) for array in arrays):
            return f"rank {[a.ndim for a in arrays]}, not {len(dims)}"
        for d, terms in enumerate(dims):
            found = self._match(terms, [array.shape[d] for array in arrays], again)
            if found:
                return f"axis {d}: {found}"
        return ""

    def _numbers(self, type_: dict[str, Any], arrays: list[np.ndarray], again: bool) -> str:
        numbers = type_["numbers"]
        if numbers is None or type_["kind"] not in ("same", "sizes", "sum"):
            return ""
        flat = [np.ravel(array) for array in arrays]
        if any(f.size != len(numbers) for f in flat):
            return f"{flat[0].size} numbers, not {len(numbers)}"
        for i, terms in enumerate(numbers):
            found = self._match(terms, [int(round(float(f[i]))) for f in flat], again)
            if found:
                return f"number {i}: {found}"
        return ""

    # ------------------------------------------------------------------------ values

    def _values(self, type_: dict[str, Any], arrays: list[np.ndarray]) -> str:
        whole = arrays[0]
        kind, exponent = type_["kind"], type_["exponent"]
        back = [
            piece * ratio**-exponent if exponent else piece
            for piece, ratio in zip(arrays[1:], self.step.ratios[1:])
        ]
        if kind == "zero":
            return "" if not any(np.any(a) for a in arrays) else "not zero"
        if kind == "same":
            for piece in back:
                if self._differs(piece, whole, arrays):
                    return _difference(piece, whole)
            return ""
        if kind == "rows":
            got = join(back, type_["axis"], type_["part"], self)
        else:
            got = np.asarray(
                self.step.combined({**type_, "exponent": 0}, (None, *map(tf.constant, back)))
            )
        return _difference(got, whole) if self._differs(got, whole, arrays) else ""

    def _differs(self, got: np.ndarray, whole: np.ndarray, arrays: list[np.ndarray]) -> bool:
        if got.shape != whole.shape:
            return True
        if got.dtype.kind not in "fc":
            return not np.array_equal(got, whole)
        tolerance = 2e-3 if self.step.is_rough else 1e-7
        finite = np.isfinite(whole)
        if not np.array_equal(finite, np.isfinite(got)):
            return True
        largest = max(np.max(np.abs(a[np.isfinite(a)]), initial=1e-2) for a in arrays)
        return bool(np.max(np.abs(got[finite] - whole[finite]), initial=0) > tolerance * largest)

    def sizes(self, terms: Any) -> list[int]:
        """Returns a number of rows of each learner."""
        expected = self._expected(terms) if terms is not None else None
        if expected is None:
            raise lockstep.OpenNumberError
        return expected[1:]


def join(pieces: list[np.ndarray], axis: int, part: Any, seen: _Seen) -> np.ndarray:
    """Joins learners' rows."""
    if part[0] == "repeated":
        by = seen.sizes(part[1])[0]
        split = [
            p.reshape(p.shape[:axis] + (by, p.shape[axis] // by) + p.shape[axis + 1 :])
            for p in pieces
        ]
        joined = join(split, axis + 1, part[2], seen)
        return joined.reshape(joined.shape[:axis] + (-1,) + joined.shape[axis + 2 :])
    if part[0] == "concatenated":
        sizes = [seen.sizes(terms) for _, terms in part[1]]
        totals = [sum(own) for own in zip(*sizes)]
        blocks, starts = [], [0] * len(pieces)
        for (inner, _), own in zip(part[1], sizes):
            block = []
            for k, piece in enumerate(pieces):
                unit = piece.shape[axis] // max(1, totals[k])
                block.append(np.take(piece, range(starts[k], starts[k] + unit * own[k]), axis))
                starts[k] += unit * own[k]
            blocks.append(join(block, axis, inner, seen))
        return np.concatenate(blocks, axis)
    return np.concatenate(pieces, axis)


def _difference(got: np.ndarray, whole: np.ndarray) -> str:
    if got.shape != whole.shape:
        return f"shape {got.shape}, not {whole.shape}"
    at = np.argmax(np.abs(np.ravel(got).astype(float) - np.ravel(whole).astype(float)))
    return f"{np.ravel(got)[at]}, not {np.ravel(whole)[at]}"
