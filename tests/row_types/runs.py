"""A learning run: a graph, its feeds and fetches, and its row types."""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
import pickle
from typing import Any

import numpy as np

import tensorbow


@dataclasses.dataclass
class LearningRun:
    """A run whose rows learners may divide.

    Attributes:
        name: unique in its corpus.
        corpus: the source of the run.
        graph: a serialised `GraphDef` with everything that fetches and targets need.
        feeds: an array for each fed tensor, or None if only its shape matters.
        divided: the fed tensors with rows on their first axis.
        sparse: indices, values and shape of fed sparse tensors, by name.
        trainable: names of variables.
        rows: the number of rows that the graph requires; None: any.
    """

    name: str
    corpus: str
    graph: bytes
    feeds: dict[str, np.ndarray | None]
    divided: list[str]
    fetches: list[str]
    targets: list[str]
    trainable: list[str]
    sparse: list[list[str]] = dataclasses.field(default_factory=list)
    ranks: dict[str, int] = dataclasses.field(default_factory=dict)
    rows: int | None = None

    def types(self, gathers: bool = True) -> dict[str, Any]:
        """Returns the result of `tensorbow._native.type_rows`."""
        parts = {name for names in self.sparse for name in names}
        whole = {}
        for name, value in self.feeds.items():
            if name not in self.divided and name not in parts:
                whole[name] = np.ndim(value) if value is not None else self.ranks.get(name, 0)
        divided = []
        for name in self.divided:
            value = self.feeds.get(name)
            divided.append((name, self.ranks.get(name) if value is None else np.ndim(value)))
        return tensorbow._native.type_rows(
            self.graph,
            feeds=list(self.feeds),
            fetches=self.fetches,
            targets=self.targets,
            trainable=self.trainable,
            divided=divided,
            whole=whole,
            sparse=self.sparse,
            gathers=gathers,
        )

    @property
    def key(self) -> str:
        """Returns a key that is equal for runs of equal graphs, feeds and fetches."""
        ends = (sorted(self.feeds), sorted(self.divided), self.fetches, self.targets)
        return hashlib.sha1(self.graph + repr(ends).encode()).hexdigest()

    def save(self, directory: pathlib.Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.corpus}__{self.name}.pkl"
        path.write_bytes(pickle.dumps(dataclasses.asdict(self)))


def load(directory: pathlib.Path, pattern: str = "*") -> list[LearningRun]:
    """Loads the saved runs; of equal ones the first."""
    found: dict[str, LearningRun] = {}
    for path in sorted(directory.glob(f"{pattern}.pkl")):
        run = LearningRun(**pickle.loads(path.read_bytes()))
        found.setdefault(run.key, run)
    return list(found.values())
