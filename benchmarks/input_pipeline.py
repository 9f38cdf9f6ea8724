"""The cost of feeding a program from tf.data, against feed dicts of arrays that are ready.

    python benchmarks/input_pipeline.py [--models MODEL:BATCH …] [--learners N] [--slices N]

All contenders train the same network with the same learning tasks:

- a run is fed all rows and divides them
- a run takes an element of as many rows from a pipeline that slices, batches and prefetches, and
divides it; the number of rows is open or built into the graph
- every learner takes an element of its own
- the pipeline also shuffles rows and computes something from each, which takes longer than
training a small network
- a stock session at the same fed batch

Writes benchmarks/results/input_pipeline.{json,md}. Goal: at least 0.97 of feed dicts.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib

import numpy as np
from contenders import Contender
from interleave import machine, measure, spread

RESULTS = pathlib.Path(__file__).parent / "results"
ROWS = ["logistic:16", "lenet:4", "lenet:16"]  # rows per learner
PULLED = {
    "an element, divided": {},
    "an element of fixed rows, divided": {"fixed": True},
    "an element for each learner": {"elements": "one_each"},
}


def contenders(rows: int, learners: int) -> dict[str, Contender]:
    """Returns the contenders by their names in the report."""
    found = {
        "tf.Session, fed": Contender("stock fed", "stock_session", rows),
        "tf.Session, an element": Contender("stock pulled", "pipeline_session", rows),
        "fed": Contender(
            "fed", "tensorbow_session", rows, {"learners": learners, "synchroniser": "SSGD"}
        ),
    }
    for name, settings in PULLED.items():
        found[name] = Contender(name, "pipeline_session", rows, {"learners": learners} | settings)
    for name, count in (("tf.Session, rows mapped", 0), ("rows mapped, divided", learners)):
        settings = {"learners": count, "mapped": True}
        found[name] = Contender(name, "pipeline_session", rows, settings)
    return found


def stock_of(name: str) -> str:
    """Returns the stock session with the same data."""
    if "mapped" in name:
        return "tf.Session, rows mapped"
    return "tf.Session, fed" if name.endswith("fed") else "tf.Session, an element"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=ROWS, metavar="MODEL:BATCH")
    parser.add_argument("--learners", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--slices", type=int, default=15, help="slices of each contender")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a slice")
    arguments = parser.parse_args()
    learners = arguments.learners

    where = machine()
    lines = [
        "# tf.data against feed dicts",
        "",
        f"{where['cpu']}, {where['cores']} cores; TensorFlow {where['tensorflow']}, "
        f"Python {where['python']}; {where['date']}. {arguments.slices} slices of "
        f"{arguments.seconds} s each, taken in turn; samples/s and ratios are medians with "
        f"quartiles. {learners} learners; every run trains on as many rows.",
    ]
    report: dict = {"machine": where, "slices": arguments.slices, "samples_per_s": {}}
    for row in arguments.models:
        model, batch = row.split(":")
        rows = learners * int(batch)
        compared = contenders(rows, learners)
        measured = measure(model, list(compared.values()), arguments.slices, arguments.seconds)
        speeds = {name: measured[contender.name] for name, contender in compared.items()}
        report["samples_per_s"][row] = speeds
        section = ["", f"## {model}, {rows} rows a run", ""]
        section += ["| | samples/s | ÷ fed | ÷ tf.Session, the same |", "|---|---|---|---|"]
        for name, values in speeds.items():
            cells = [name]
            for numbers, form in (
                (values, "{:,.0f}"),
                (np.divide(values, speeds["fed"]), "{:.2f}"),
                (np.divide(values, speeds[stock_of(name)]), "{:.2f}"),
            ):
                median, low, high = (form.format(v) for v in spread(numbers))
                cells.append(f"{median} ({low}–{high})")
            section.append("| " + " | ".join(cells) + " |")
        print("\n".join(section), flush=True)
        lines += section
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "input_pipeline.json").write_text(json.dumps(report, indent=1) + "\n")
    (RESULTS / "input_pipeline.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
