"""The speed of `fit`: stock Keras against `tensorbow.keras.replicate`.

    python benchmarks/keras_fit.py [--models lenet:32:adam …] [--slices N] [--output NAME]

Everything of a row has the same `batch_size`: stock Keras with its default and with several
`steps_per_execution`, of which the best counts; TensorBow with one and more learners,
averaging models or gradients; and `TensorBowSession.run` on the very graph that Keras's
train_step became. All of a row are measured in turn, slice by slice; the ratio of two is the
median of their ratios within a slice. Writes benchmarks/results/NAME.{json,md}.
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
DEFAULT_ROWS = ["lenet:32", "logistic:32", "resnet20:64"]
STEPS_PER_EXECUTION = [16, 64]
# The rows of an epoch, by model: long enough that the fixed costs of fit() do not count.
EPOCH_ROWS = {"logistic": 32768, "lenet": 2048, "resnet20": 512, "resnet32": 512}


def contenders(model: str, batch: int, optimiser: str, learners: int) -> list[Contender]:
    """Returns everything that is compared at `batch` rows a step."""
    rows = EPOCH_ROWS[model] // (2 if batch < 16 else 1)

    def fit(name: str, **settings: int | str) -> Contender:
        settings = {"batch_size": batch, "optimiser": optimiser, **settings}
        return Contender(name, "keras_epochs", rows, settings)

    found = [fit("Keras fit")]
    for steps in STEPS_PER_EXECUTION:
        found.append(fit(f"Keras fit, {steps} steps a call", steps_per_execution=steps))
    for n in sorted({1, learners}):
        found.append(fit(f"TensorBow fit, {n} learner{'s' * (n > 1)}", learners=n))
    found.append(
        fit(f"TensorBow fit, {learners} learners, S-SGD", learners=learners, synchroniser="SSGD")
    )
    found.append(
        Contender(
            f"TensorBowSession, {learners} learners, same graph",
            "tensorbow_session_on_keras_graph",
            rows,
            {"batch_size": batch, "learners": learners, "optimiser": optimiser},
        )
    )
    return found


def table(speeds: dict[str, list[float]]) -> list[str]:
    """Returns Markdown: samples/s and ratios, each with quartiles, to default and best stock
    fit."""
    stock = [n for n in speeds if n.startswith("Keras fit")]
    best = max(stock, key=lambda name: float(np.median(speeds[name])))
    lines = [f"| | samples/s (quartiles) | ÷ {stock[0]} | ÷ best ({best}) |", "|---|---|---|---|"]
    for name, values in speeds.items():
        cells = [spread(values)]
        cells += [spread(np.divide(values, speeds[other])) for other in (stock[0], best)]
        texts = ["{:,.0f} ({:,.0f}–{:,.0f})".format(*cells[0])]
        texts += ["{:.2f} ({:.2f}–{:.2f})".format(*cell) for cell in cells[1:]]
        lines.append(f"| {name} | " + " | ".join(texts) + " |")
    return lines


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--models", nargs="+", default=DEFAULT_ROWS, metavar="MODEL:BATCH[:OPTIMISER]"
    )
    parser.add_argument("--slices", type=int, default=15, help="slices of each contender")
    parser.add_argument("--learners", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--output", default="keras_fit", help="name of the result files")
    arguments = parser.parse_args()

    where = machine()
    report = {"machine": where, "slices": arguments.slices, "rows": {}}
    lines = [
        "# Keras fit",
        "",
        f"{where['cpu']}, {where['cores']} cores, {where['memory_gib']} GiB; TensorFlow "
        f"{where['tensorflow']}, Keras {where['keras']}, Python {where['python']}; "
        f"{where['date']}.",
        f"{arguments.slices} epochs of each, taken in turn; medians with quartiles. "
        f" Load average at the start: {os.getloadavg()[0]:.1f}.",
    ]
    for row in arguments.models:
        model, batch, *named = row.split(":")
        optimiser = named[0] if named else "sgd"
        compared = contenders(model, int(batch), optimiser, arguments.learners)
        speeds = measure(model, compared, arguments.slices, seconds=0)
        section = ["", f"## {model}, {optimiser}, batch_size={batch}", "", *table(speeds)]
        print("\n".join(section), flush=True)
        lines += section
        report["rows"][row] = {"samples_per_s": speeds}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{arguments.output}.json").write_text(json.dumps(report, indent=1) + "\n")
    (RESULTS / f"{arguments.output}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
