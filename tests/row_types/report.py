"""Counts the learning runs that have types, by corpus, and the obstacles of the others.

    python -m tests.row_types.report FOLDER [FILE]

types the runs that tests/row_types/capture.py has saved in a folder, executes each whole and in
uneven shards with three seeds, and compares every tensor with its type.
"""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import sys
import time
from typing import Any

import tensorflow as tf

from tests.row_types import runs
from tests.row_types.verify import verify

SEEDS = 3
WAYS = ("exact as they are", "exchange state", "exchange in the loss", "unknown")


@dataclasses.dataclass
class Count:
    """The counts of a comparison."""

    runs: int = 0
    tensors: int = 0  # in all executions
    wrong: int = 0
    skipped: int = 0
    stopped: int = 0

    def add(self, outcome: Any) -> None:
        self.runs += 1
        self.tensors += len(outcome.checked)
        self.wrong += len(outcome.wrong)
        self.skipped += len(outcome.skipped)
        self.stopped += bool(outcome.stopped)


def line_of(corpus: str, count: Count) -> str:
    """Returns one line on a corpus."""
    return (
        f"{corpus}: {count.runs} runs, {count.tensors:,} tensors compared, {count.wrong} wrong, "
        f"{count.skipped:,} not computed, {count.stopped} runs not executed to their end"
    )


def way_of(run: runs.LearningRun, facts: dict[str, Any]) -> str:
    """Returns one of WAYS."""
    if facts["unknown"] is not None:
        return WAYS[3]
    moments = [need["node"] for need in facts["needs"] if need["kind"] in ("moments", "count")]
    if not facts["exchanges"] and not moments:
        return WAYS[0]
    trained = _needed(run, [write["node"] for write in facts["writes"] if write["trained"]])
    exchanged = [name.rsplit(":", 1)[0] for name in facts["exchanges"]] + moments
    return WAYS[2] if any(_is_among(name, trained) for name in exchanged) else WAYS[1]


def _is_among(path: str, nodes: set[str]) -> bool:
    """Returns whether a node, or the call that contains it, is among these."""
    pieces = path.split("/")
    return any("/".join(pieces[:k]) in nodes for k in range(len(pieces), 0, -1))


def _needed(run: runs.LearningRun, ends: list[str]) -> set[str]:
    """Returns the nodes that make the inputs of these."""
    graph = tf.compat.v1.GraphDef.FromString(run.graph)
    inputs = {
        node.name: [name.split(":")[0] for name in node.input if not name.startswith("^")]
        for node in graph.node
    }
    todo, seen = [name for name in ends if name in inputs], set()
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += inputs.get(name, [])
    return seen


def report(found: list[runs.LearningRun]) -> str:
    """Returns the tables."""
    ways: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    causes: collections.Counter[tuple[str, str]] = collections.Counter()
    examples: dict[tuple[str, str], str] = {}
    times = []
    for run in found:
        start = time.perf_counter()
        facts = run.types()
        seconds = time.perf_counter() - start
        ways[run.corpus][way_of(run, facts)] += 1
        times.append((seconds, len(facts["types"]), run.name))
        if facts["unknown"] is not None:
            op, _, text = facts["unknown"]
            causes[op, text] += 1
            examples.setdefault((op, text), run.name)
    lines = [f"{'':14s}{'runs':>6s}" + "".join(f"{way:>22s}" for way in WAYS) + "   typed"]
    total: collections.Counter[str] = collections.Counter()
    for corpus, counted in ways.items():
        lines.append(_row(corpus, counted))
        total += counted
    lines += [_row("all", total), "", "Why runs have no types:"]
    for (op, text), number in causes.most_common():
        lines.append(f"{number:4d}  {op}: {text} ({examples[op, text]})")
    lines += ["", "The slowest:"]
    for seconds, tensors, name in sorted(times, reverse=True)[:5]:
        lines.append(f"{1000 * seconds:6.0f} ms  {tensors:6d} tensors  {name}")
    return "\n".join(lines) + "\n"


def verification(found: list[runs.LearningRun]) -> str:
    """Returns a table of the tensors that were compared with their types."""
    counts: dict[str, Count] = collections.defaultdict(Count)
    distinct: collections.Counter[str] = collections.Counter()
    wrong = []
    for run in found:
        outcomes = [verify(run, seed) for seed in range(SEEDS)]
        distinct[run.corpus] += len(set().union(*(outcome.checked for outcome in outcomes)))
        for seed, outcome in enumerate(outcomes):
            counts[run.corpus].add(outcome)
            counts["all"].add(outcome)
            wrong += [f"  {run.name}, seed {seed}: {where}" for where in outcome.wrong]
    distinct["all"] = sum(distinct.values())
    lines = [f"{f'{SEEDS} seeds':14s}{'tensors':>10s}{'compared':>10s}{'wrong':>8s}{'stopped':>9s}"]
    for corpus in [*(name for name in counts if name != "all"), "all"]:
        count = counts[corpus]
        lines.append(
            f"{corpus:14s}{distinct[corpus]:10,d}{count.tensors:10,d}{count.wrong:8d}"
            f"{count.stopped:9d}"
        )
    return "\n".join([*lines, *wrong]) + "\n"


def _row(name: str, counted: collections.Counter[str]) -> str:
    count = sum(counted.values())
    typed = 100 * (count - counted[WAYS[3]]) / max(1, count)
    return f"{name:14s}{count:6d}" + "".join(f"{counted[w]:22d}" for w in WAYS) + f"{typed:6.0f} %"


if __name__ == "__main__":
    recorded = runs.load(pathlib.Path(sys.argv[1]))
    programs = [run for run in recorded if run.corpus != "adversarial"]
    text = f"{report(programs)}\n{verification(recorded)}"
    print(text)
    if len(sys.argv) > 2:
        pathlib.Path(sys.argv[2]).write_text(text)
