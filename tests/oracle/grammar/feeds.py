"""Feeds of drawn programs, run by run; some values have an effect only in later runs."""

from __future__ import annotations

import numpy as np

COLUMNS, UNITS, CLASSES, TOKENS, STEPS, FEATURES = 3, 4, 3, 8, 4, 5

# The type and shape of each placeholder, by name. None is the number of rows.
FEEDS = {
    "x": ("float64", [None, COLUMNS]),
    "y": ("float64", [None]),
    "c": ("int32", [None]),
    "ids": ("int32", [None, 3]),
    "seq": ("float64", [None, STEPS, 2]),
    "time_major": ("float64", [STEPS, None, 2]),
    "lengths": ("int32", [None]),
    "mask": ("float64", [None]),
    "weights": ("float64", [None]),
    "noise": ("float64", [None, UNITS]),
    "negatives": ("int32", [4]),
    "anchors": ("float64", [None, UNITS]),
    "class_weights": ("float64", [None]),
    "flag": ("bool", []),
    "often": ("bool", []),
    "ramp": ("float64", []),
    "rate": ("float64", []),
    "count": ("int32", []),
}

SIZES = {
    "epochs": lambda random, run: 8 if run % 7 else 3,
    "varied": lambda random, run: random.choice([8, 8, 8, 6, 7, 5, 1, 2, 3, 13]),
    "few": lambda random, run: random.choice([1, 2, 3]),
    "one, then more": lambda random, run: 1 if run % 9 == 0 else 6,
    "fixed": lambda random, run: 6,
}


def rows_of(sizes: str, seed: int, run: int) -> int:
    """Returns the number of rows of a run."""
    return int(SIZES[sizes](np.random.default_rng([seed, run, 1]), run))


def arrays(seed: int, run: int, rows: int) -> dict[str, np.ndarray]:
    """Returns a value for each of FEEDS."""
    random = np.random.default_rng([seed, run])
    x = random.standard_normal((rows, COLUMNS))
    if run > 20 and run % 37 == 0:
        x[-1] *= 5.0  # a rare row, which reaches thresholds and clips
    lengths = random.integers(0, STEPS + 1, rows)
    y = np.tanh(x.sum(1)) + 0.1 * random.standard_normal(rows)
    scalars = {
        "flag": run > 40 and run % 7 == 3,
        "often": run < 30 or run % 3 > 0,
        "ramp": min(max(run - 60, 0) / 60, 1.0),
        "rate": 0.03 * 0.5 ** (run // 70),
        "count": 1 + run % 3,
    }
    values = {
        "x": x,
        "y": y,
        "c": random.integers(0, 2 if run < 50 else CLASSES, rows),
        "ids": _tokens(random, run, rows, lengths),
        "seq": random.standard_normal((rows, STEPS, 2)),
        "time_major": random.standard_normal((STEPS, rows, 2)),
        "lengths": lengths,
        "mask": _mask(random, run, rows),
        "weights": random.random(rows) + (0.1 if run < 40 else 0.0),
        "noise": random.random((rows, UNITS)),
        "negatives": random.integers(1, TOKENS, 4),
        # It has no rows, but sometimes as many elements.
        "anchors": random.standard_normal((6, UNITS)),
        "class_weights": 0.5 + random.random(CLASSES),
    } | scalars
    return {name: np.asarray(value, FEEDS[name][0]) for name, value in values.items()}


def _tokens(random, run, rows, lengths):
    """Returns tokens with padding, token 0, after them; the last token is rare."""
    ids = random.integers(1, TOKENS - 1, (rows, 3))
    if run % 5 == 0:
        ids[:] = ids[0, 0]
    if run > 100 and run % 9 == 0:
        ids[0, 0] = TOKENS - 1
    ids[np.arange(3)[None] >= lengths[:, None]] = 0
    return ids


def _mask(random, run, rows):
    """Returns a mask that hides nothing at first, then some rows, and sometimes all but one."""
    mask = np.ones(rows)
    if run >= 30:
        mask = (random.random(rows) < 0.6).astype(float)
    if run >= 30 and run % 11 == 5:
        mask[:] = 0
    mask[random.integers(rows)] = 1
    return mask


def bag(seed: int, run: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns indices, values and shape of sparse rows, few of which are full."""
    random = np.random.default_rng([seed, run, 2])
    chosen = random.random((rows, FEATURES)) < (0.5 if run < 40 else 0.2)
    chosen[:, run % FEATURES] = True
    indices = np.argwhere(chosen).astype(np.int64).reshape(-1, 2)
    return indices, random.random(len(indices)) + 0.5, np.array([rows, FEATURES], np.int64)


def bag_ids(seed: int, run: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the features of `bag` as ids."""
    indices, _, shape = bag(seed, run, rows)
    return indices, indices[:, 1], shape


SPARSE = {"bag": bag, "bag_ids": bag_ids}
