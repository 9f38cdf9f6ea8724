"""The speed of any network, against a stock session.

    python benchmarks/never_slower.py [--networks NAME …] [--slices N] [--output NAME]

Networks of many kinds (networks.py), with as many rows fed to a run in all columns:

- a stock session
- the same with TensorFlow's switch for oneDNN on
- `TensorBowSession` with one learner on all cores
- with one learner for every core
- with the number that tuning finds, after it has been found

Writes benchmarks/results/NAME.{json,md}.
"""

from __future__ import annotations

from typing import Any

import network_table
import numpy as np
from contenders import WITH_ONEDNN, Contender
from interleave import Process, in_turns, spread, told
from networks import NETWORKS

from tensorbow.options import cores

STOCK, ONEDNN = "tf.Session", "tf.Session, oneDNN on"
ONE, MANY, FOUND = "one learner", "one learner a core", "learners found"
FIXED = (ONE, MANY)
LEARNERS: dict[str, int | str] = {STOCK: 0, ONEDNN: 0, ONE: 1, MANY: cores(), FOUND: "auto"}


def measure(name: str, slices: int, seconds: float) -> dict[str, Any]:
    """Returns samples/s of each kind of session by slice, and the number of learners found."""
    rows = NETWORKS[name].rows
    processes = {}
    for kind, learners in LEARNERS.items():
        switch = WITH_ONEDNN if kind == ONEDNN else {}
        settings = {"learners": learners}
        contender = Contender(kind, "network_session", rows, settings, environment=switch)
        # One after the other, since tuning measures, too.
        process = processes[kind] = Process(contender, name)
        process.wait_until_ready()
    for process in processes.values():
        process.calibrate(seconds)
    speeds = in_turns(processes, slices)
    learners = int(processes[FOUND].value())
    for process in processes.values():
        process.end()
    return {"samples_per_second": speeds, "learners": learners}


def ratio(found: dict[str, Any], kind: str, base: str = STOCK) -> str:
    """Returns the ratio to `base`: the median of the slices' ratios, with quartiles."""
    speeds = found["samples_per_second"]
    median, low, high = spread(list(np.divide(speeds[kind], speeds[base])))
    return f"{median:.2f} ({low:.2f}–{high:.2f})"


def best_fixed(found: dict[str, Any]) -> str:
    """Returns the fixed number of learners with the larger median."""
    return max(FIXED, key=lambda kind: spread(found["samples_per_second"][kind])[0])


def document(where: dict[str, Any], rows: dict[str, Any], slices: int, seconds: float) -> str:
    """Returns the report as Markdown."""
    lines = [
        "# Networks of many kinds, against a stock session at the same fed batch",
        "",
        f"{told(where)} Samples/s ÷ those of "
        f"`tf.Session`, medians of {slices} interleaved slices with quartiles. *oneDNN on*: with "
        "TF_ENABLE_ONEDNN_OPTS=1, which TensorFlow does by itself on processors with AVX512_VNNI: "
        "there this column is a second stock session, and shows the noise.",
        "",
        f"| network, rows of a run | {STOCK}, samples/s | {ONEDNN} | {ONE} | {MANY} | {FOUND} "
        "| how many | found ÷ better fixed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, found in rows.items():
        stock = spread(found["samples_per_second"][STOCK])[0]
        lines.append(
            f"| {name} | {stock:,.0f} | {ratio(found, ONEDNN)} | {ratio(found, ONE)} | "
            f"{ratio(found, MANY)} | {ratio(found, FOUND)} | {found['learners']} | "
            f"{ratio(found, FOUND, best_fixed(found))} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    numbers: dict[str, int | float] = {"slices": 9, "seconds": 0.5}
    description = __doc__.splitlines()[0]
    network_table.make(description, "never_slower", list(NETWORKS), numbers, measure, document)


if __name__ == "__main__":
    main()
