"""The speed of a long training: stock TensorFlow against every synchroniser of TensorBow.

    python benchmarks/long_run.py [--steps N] [--optimiser adam momentum] [--data mnist.npz]

A network of 784-512-512-512-10 units is trained at 32 rows a run. Its learning rate drops by 10
after a third and after two thirds of the steps. Adam's slots of units that no longer learn
become denormal numbers some 800 steps after the start. A dead learning rate makes momentum's
small. A fresh network shows none of that. Contenders are processes that take turns, slice by
slice; ratios are formed slice by slice. Writes benchmarks/results/NAME.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from contenders import Contender
from fully_connected import RATES
from interleave import Process, machine, spread
from ways import STOCK, SYNCHRONISERS, Way, available

RESULTS = pathlib.Path(__file__).parent / "results"
HIDDEN = [512, 512, 512]
ROWS = 32
SLICES = 30
WINDOW_ENDS = (6, 12, 30)  # in slices: 600, 1200 and 3000 of 3000 steps
WANTED_LATE = 0.95  # throughput late ÷ early
WANTED_RATIO = 1.2  # to stock, late


def contenders(
    ways: Sequence[Way], optimiser: str, steps: int, learners: int, data: pathlib.Path | None
) -> list[Contender]:
    """Returns all contenders at the same number of fed rows."""
    settings = {
        "hidden": HIDDEN,
        "optimiser_name": optimiser,
        "drop_every": -(-steps // 3),
        "data": data and str(data.resolve()),
    }
    return [
        Contender(way.name, "dying_rate", ROWS, {**settings, **way.settings(learners)})
        for way in ways
    ]


def measure(
    compared: Sequence[Contender], steps_per_slice: int
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Returns samples/s by contender and slice, and the loss at the end.

    A step before the first slice, which compiles, is not measured.
    """
    processes = [Process(contender, "fully_connected") for contender in compared]
    for process in processes:
        process.wait_until_ready()
    speeds: dict[str, list[float]] = {c.name: [] for c in compared}
    shuffle = random.Random(0)
    order = list(processes)
    for _ in range(SLICES):
        shuffle.shuffle(order)
        for process in order:
            samples = steps_per_slice * process.contender.rows_per_step
            speeds[process.contender.name].append(samples / process.seconds(steps_per_slice))
    losses = {process.contender.name: process.value() for process in processes}
    for process in processes:
        process.end()
    return speeds, losses


def windows(values: Sequence[float]) -> list[np.ndarray]:
    """Returns the slices of early, middle and late training."""
    begins = (0, *WINDOW_ENDS[:-1])
    return [np.asarray(values[begin:end]) for begin, end in zip(begins, WINDOW_ENDS)]


def late_by_early(values: Sequence[float]) -> float:
    """Returns the median throughput of the last window divided by that of the first."""
    early, _, late = windows(values)
    return float(np.median(late) / np.median(early))


def ratios(values: Sequence[float], stock: Sequence[float]) -> list[tuple[float, float, float]]:
    """Returns ratios to stock in the same slices, by window: median and quartiles."""
    return [spread(window) for window in windows(np.divide(values, stock).tolist())]


def table(
    speeds: dict[str, list[float]], losses: dict[str, float], steps_per_slice: int
) -> list[str]:
    """Returns Markdown: samples/s and ratios to the first contender by window, late by early,
    loss."""
    ends = [end * steps_per_slice for end in WINDOW_ENDS]
    spans = [f"{begin:,}–{end:,}" for begin, end in zip([0, *ends], ends)]
    stock = next(iter(speeds))
    header = ["", *(f"samples/s, steps {span}" for span in spans)]
    header += [*(f"÷ {stock}, {span}" for span in spans), "late ÷ early", "loss at the end"]
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    for name, values in speeds.items():
        cells = ["{:,.0f} ({:,.0f}–{:,.0f})".format(*spread(window)) for window in windows(values)]
        cells += ["{:.2f} ({:.2f}–{:.2f})".format(*r) for r in ratios(values, speeds[stock])]
        cells += [f"{late_by_early(values):.2f}", f"{losses[name]:.4f}"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def findings(speeds: dict[str, list[float]]) -> list[str]:
    """Returns contenders that become slower, or are not faster than stock in the end."""
    stock = next(iter(speeds))
    found = []
    for name, values in list(speeds.items())[1:]:
        late, ratio = late_by_early(values), ratios(values, speeds[stock])[-1][0]
        if late < WANTED_LATE:
            found.append(f"{name}: late ÷ early {late:.2f}, wanted {WANTED_LATE}.")
        if ratio < WANTED_RATIO:
            found.append(f"{name}: late ÷ {stock} {ratio:.2f}, wanted {WANTED_RATIO}.")
    return found or [f"All: late ÷ early ≥ {WANTED_LATE}, late ÷ {stock} ≥ {WANTED_RATIO}."]


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3000, help=f"a multiple of {SLICES}")
    parser.add_argument("--learners", type=int, default=2)
    parser.add_argument("--optimiser", nargs="+", choices=RATES, default=["adam", "momentum"])
    parser.add_argument("--data", type=pathlib.Path, help="mnist.npz; without: sklearn's digits")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder")
    parser.add_argument("--output", default="long_run", help="name of the result files")
    arguments = parser.parse_args()
    if arguments.steps < SLICES or arguments.steps % SLICES:
        parser.error(f"--steps must be a multiple of {SLICES}, got {arguments.steps}")
    steps_per_slice = arguments.steps // SLICES

    ways, absent = available([STOCK, *SYNCHRONISERS])
    where = machine()
    lines = [
        "# A long training",
        "",
        f"{where['cpu']}, {where['cores']} cores, {where['memory_gib']} GiB; TensorFlow "
        f"{where['tensorflow']}, Python {where['python']}; {where['date']}. Load average at the "
        f"start: {os.getloadavg()[0]:.1f}.",
        f"{'-'.join(map(str, [784, *HIDDEN, 10]))} units, ReLU, {ROWS} rows fed to a run and "
        f"divided among {arguments.learners} learners, {arguments.steps:,} steps on "
        f"{arguments.data.name if arguments.data else 'the digits of scikit-learn'}; the learning "
        f"rate drops by 10 at steps {-(-arguments.steps // 3):,} and "
        f"{2 * -(-arguments.steps // 3):,}. {SLICES} slices of {steps_per_slice} steps each, "
        "taken in turn; medians with quartiles. The loss is that of rows that were not trained "
        "on, by the central model (`Independent`: learner 0's).",
        *absent,
    ]
    report: dict[str, Any] = {
        "machine": where,
        "steps": arguments.steps,
        "learners": arguments.learners,
        "rows": {},
    }
    for optimiser in arguments.optimiser:
        compared = contenders(ways, optimiser, arguments.steps, arguments.learners, arguments.data)
        speeds, losses = measure(compared, steps_per_slice)
        section = ["", f"## {optimiser}, rate {RATES[optimiser]:g}", ""]
        section += [*table(speeds, losses, steps_per_slice), "", *findings(speeds)]
        print("\n".join(section), flush=True)
        lines += section
        report["rows"][optimiser] = {"samples_per_s": speeds, "loss": losses}
    arguments.results.mkdir(parents=True, exist_ok=True)
    (arguments.results / f"{arguments.output}.json").write_text(json.dumps(report, indent=1) + "\n")
    (arguments.results / f"{arguments.output}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
