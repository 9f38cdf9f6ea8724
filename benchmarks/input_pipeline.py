"""What feeding a program from tf.data costs, against feed dicts of arrays that are ready.

    python benchmarks/input_pipeline.py [--batches N …] [--learners N] [--slices N]

The same LeNet, the same learning tasks: a run is fed all rows and divides them, or every
learner pulls a batch of its own from the one pipeline that slices, batches and prefetches.
Writes benchmarks/results/input_pipeline.{json,md}. Wanted: at least 0.97.
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
MODEL = "lenet"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", nargs="+", type=int, default=[4, 16], help="rows per learner")
    parser.add_argument("--learners", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--slices", type=int, default=15, help="slices of each contender")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a slice")
    arguments = parser.parse_args()
    learners = arguments.learners

    where = machine()
    lines = [
        "# tf.data against feed dicts",
        "",
        f"{MODEL}; {where['cpu']}, {where['cores']} cores; TensorFlow {where['tensorflow']}, "
        f"Python {where['python']}; {where['date']}. {arguments.slices} slices of "
        f"{arguments.seconds} s each, taken in turn; samples/s and ratios are medians with "
        "quartiles.",
        "",
        "| session | rows per learner | feed dicts | tf.data | tf.data ÷ feed dicts |",
        "|---|---|---|---|---|",
    ]
    report: dict = {"machine": where, "slices": arguments.slices, "samples_per_s": {}}
    for batch in arguments.batches:
        rows = learners * batch
        speeds = measure(
            MODEL,
            [
                Contender("fed", "tensorbow_session", rows, {"learners": learners}),
                Contender("pulled", "pipeline_session", rows, {"learners": learners}),
                Contender("stock fed", "stock_session", batch),
                Contender("stock pulled", "pipeline_session", batch),
            ],
            arguments.slices,
            arguments.seconds,
        )
        report["samples_per_s"][batch] = speeds
        for title, prefix in ((f"TensorBow, {learners} learners", ""), ("tf.Session", "stock ")):
            fed, pulled = speeds[f"{prefix}fed"], speeds[f"{prefix}pulled"]
            cells = [title, str(batch)]
            for values, form in (
                (fed, "{:,.0f}"),
                (pulled, "{:,.0f}"),
                (np.divide(pulled, fed), "{:.2f}"),
            ):
                median, low, high = (form.format(v) for v in spread(values))
                cells.append(f"{median} ({low}–{high})")
            lines.append("| " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "input_pipeline.json").write_text(json.dumps(report, indent=1) + "\n")
    (RESULTS / "input_pipeline.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
