"""Makes sparse rows with the statistics of an extreme classification data set.

    python benchmarks/power_law.py FILE [--scale S] [--rows N] [--repeat N] [--seed N]

The statistics are those of Amazon-670K in the extreme classification repository (Bhatia et al.,
http://manikvarma.org/downloads/XC/XMLRepository.html): 670,091 labels, 135,909 features, 490,449
training rows, 5.45 labels and about 75 features a row. The frequency of a feature or label follows
a power law; the frequent ones are drawn. With --scale 0.01 there are a hundredth of the labels,
features and rows, and as many of them in a row. The file is in the LIBSVM format, with a header.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib

import numpy as np

from tensorbow.data._libsvm import Rows

EXPONENT = 1.0  # the n-th most frequent one occurs n^-EXPONENT times as often as the first


@dataclasses.dataclass(frozen=True)
class Statistics:
    """The statistics of a data set."""

    labels: int = 670_091
    features: int = 135_909
    rows: int = 490_449
    labels_a_row: float = 5.45
    features_a_row: float = 75.0

    def scaled(self, scale: float) -> Statistics:
        """Returns the statistics with a part of the labels, features and rows."""
        sizes = {
            name: max(1, round(getattr(self, name) * scale))
            for name in ("labels", "features", "rows")
        }
        return dataclasses.replace(self, **sizes)


AMAZON_670K = Statistics()


class _Drawn:
    """Numbers below `size`, drawn by a power law."""

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self._rng = rng
        self._size = size
        weights = np.arange(1, size + 1, dtype=np.float64) ** -EXPONENT
        self._cumulative = np.cumsum(weights / weights.sum())
        self._names = rng.permutation(size)

    def sets(self, counts: np.ndarray) -> list[np.ndarray]:
        """Draws sets of these numbers of different elements, or of all; ascending."""
        sets = []
        for count in np.minimum(counts, self._size):
            found = np.zeros(0, np.int64)
            while len(found) < count:
                more = np.searchsorted(self._cumulative, self._rng.random(2 * count + 8))
                drawn = np.concatenate([found, np.minimum(more, self._size - 1)])
                _, first = np.unique(drawn, return_index=True)
                found = drawn[np.sort(first)][:count]
            sets.append(np.sort(self._names[found]))
        return sets


def rows(statistics: Statistics, count: int, seed: int = 0) -> Rows:
    """Draws rows; values are positive and have a Euclidean length of 1 in every row."""
    rng = np.random.default_rng(seed)
    features = _Drawn(statistics.features, rng).sets(
        1 + rng.poisson(statistics.features_a_row - 1, count)
    )
    labels = _Drawn(statistics.labels, rng).sets(
        1 + rng.poisson(statistics.labels_a_row - 1, count)
    )
    values = []
    for columns in features:
        value = rng.exponential(size=len(columns)) + 0.01
        values.append((value / np.linalg.norm(value)).astype(np.float32))

    def ends(sets: list[np.ndarray]) -> np.ndarray:
        return np.cumsum([0] + [len(one) for one in sets])

    return Rows(
        ends(features),
        np.concatenate(features),
        np.concatenate(values),
        ends(labels),
        np.concatenate(labels),
    )


def write(
    path: pathlib.Path, data: Rows, statistics: Statistics, repeat: int = 1, header: bool = True
) -> None:
    """Writes a file with the rows, all of them `repeat` times; numbers start at 0."""
    lines = []
    for i in range(len(data)):
        row = slice(data.ends[i], data.ends[i + 1])
        labels = data.labels[data.label_ends[i] : data.label_ends[i + 1]]
        values = (f"{c}:{v:.6f}" for c, v in zip(data.columns[row], data.values[row]))
        lines.append(",".join(map(str, labels)) + " " + " ".join(values) + "\n")
    text = "".join(lines)
    with open(path, "w") as file:
        if header:
            file.write(f"{len(data) * repeat} {statistics.features} {statistics.labels}\n")
        for _ in range(repeat):
            file.write(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--scale", type=float, default=0.01, help="of the data set")
    parser.add_argument("--rows", type=int, help="instead of the scaled number")
    parser.add_argument("--repeat", type=int, default=1, help="write them so many times")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    statistics = AMAZON_670K.scaled(arguments.scale)
    data = rows(statistics, arguments.rows or statistics.rows, arguments.seed)
    write(arguments.file, data, statistics, arguments.repeat)


if __name__ == "__main__":
    main()
