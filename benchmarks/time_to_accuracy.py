"""The time to a target accuracy: stock TensorFlow against TensorBow.

    python benchmarks/time_to_accuracy.py --model lenet --data mnist.npz --cache RUNS.jsonl
    python benchmarks/time_to_accuracy.py --model lenet --throughput --cache RUNS.jsonl

It is the quotient of two measurements. *Statistical efficiency* is the number of samples that a
contender needs, which does not depend on the load of the machine. *Hardware efficiency* is the
number of samples it trains on in a second. `--throughput` measures it for all contenders in turn on
an idle machine.

Every contender has its own learning rate, found on a part of the training data that is held back.
Hill climbing uses factors of two and then, over three seeds, factors of √2 or the best two rates.
The test set is used for the final runs only. Accuracy after an evaluation is the median of the last
five (as in CROSSBOW, VLDB 2019, section 5.1). Each finished run is appended to the cache, so that
the benchmark can be interrupted and continued. Writes benchmarks/results/NAME.{json,md}.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import sys
import time
from collections.abc import Sequence

import numpy as np
from accuracy_report import Row, document, plot
from accuracy_runs import (
    KINDS,
    SETTINGS,
    Recipe,
    Runs,
    Task,
    grid,
    missing,
    samples_to_target,
)
from accuracy_tuning import FINE_SEEDS, rate_at, score, tune
from interleave import machine, measure

RESULTS = pathlib.Path(__file__).parent / "results"
MAX_LOAD = 0.6  # per core, for measuring samples/s


def train(
    runs: Runs,
    tuning: Task,
    final: Task,
    recipes: Sequence[Recipe],
    kinds: Sequence[str],
    seeds: int,
) -> dict[Recipe, dict[str, float]]:
    """Tunes and trains everything missing in `runs`; returns the learning rates of each kind.

    Trains all recipes with the first seed, then all with the second, so that an early end leaves
    results of each.
    """
    rates: dict[Recipe, dict[str, float]] = {}
    for seed in range(1, seeds + 1):
        for recipe in recipes:
            if recipe not in rates:
                rates[recipe] = tune(runs, tuning, recipe, kinds)
            mine = rates[recipe]
            for rate in sorted(set(mine.values())):
                runs.get(final, recipe, rate, seed, [k for k in mine if mine[k] == rate])
    return rates


def collect(
    runs: Runs, tuning: Task, final: Task, rates: dict[Recipe, dict[str, float]], seeds: int
) -> list[Row]:
    """Collects the final runs: contenders at their tuned rate, and at any other."""
    rows = []
    for recipe, mine in rates.items():
        for kind, tuned in mine.items():
            around = [rate_at(recipe, final.setting, place) for place in range(-18, 19)]
            tried = {}
            for rate in around:
                ends = [
                    1 - score(found["samples"], found[kind], np.inf)[1]
                    for seed in range(FINE_SEEDS)
                    if (found := runs.find(tuning.key(recipe, rate, seed), [kind]))
                ]
                if ends:
                    tried[rate] = ends
            for rate in around:
                row = Row(recipe, kind == "averaged", rate, rate == tuned, tried=tried)
                for seed in range(1, seeds + 1):
                    if found := runs.find(final.key(recipe, rate, seed), [kind]):
                        samples = found["samples"][: len(found[kind])]
                        row.curves.append((samples, [round(a, 5) for a in found[kind]]))
                        row.samples.append(
                            samples_to_target(samples, found[kind], final.setting.target)
                        )
                if row.curves:
                    rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["lenet", "resnet20"], default="lenet")
    parser.add_argument("--data", type=pathlib.Path, help=".npz in the layout of Keras's MNIST")
    parser.add_argument("--cache", type=pathlib.Path, required=True, help="finished runs (JSONL)")
    parser.add_argument("--quick", action="store_true", help="fewer contenders, shorter runs")
    parser.add_argument("--only", help="contenders whose name contains this")
    parser.add_argument("--contenders", type=int, help="only the first so many of the grid")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no run after so many")
    parser.add_argument("--threads", type=int, default=0, help="of stock sessions while training")
    parser.add_argument(
        "--throughput",
        action="store_true",
        help="train nothing; measure samples/s of what was trained (idle machine)",
    )
    parser.add_argument("--slices", type=int, default=15, help="of each contender's throughput")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a slice")
    parser.add_argument("--plot", type=pathlib.Path, help="save a plot here (PNG)")
    parser.add_argument("--output", help="name of the result files")
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    if arguments.throughput and os.getloadavg()[0] > MAX_LOAD * cores:
        sys.exit(
            f"samples/s need an idle machine: the load average is {os.getloadavg()[0]:.2f}, "
            f"wanted at most {MAX_LOAD * cores:.2f}; try again later"
        )

    import tensorflow as tf

    from tensorbow import datasets

    tf.compat.v1.disable_eager_execution()
    model, setting = arguments.model, SETTINGS[arguments.model, arguments.quick]
    data = datasets.load(arguments.data)
    tuning, final = (Task(model, data, setting, tuned) for tuned in (True, False))
    minutes = 0 if arguments.throughput else arguments.minutes
    runs = Runs(arguments.cache, arguments.threads, time.monotonic() + 60 * minutes)
    compared = grid(model, arguments.quick)
    recipes = [r for r in compared if not missing(r.way)]
    recipes = [r for r in recipes if not arguments.only or arguments.only in r.name()]
    absent = {what for r in compared for a in (False, True) if (what := missing(r.way, a))}

    rates = train(
        runs, tuning, final, recipes[: arguments.contenders], arguments.kinds, arguments.seeds
    )
    rows = collect(runs, tuning, final, rates, arguments.seeds)
    if not rows:
        sys.exit("no run is finished: nothing to report")
    where = machine()
    key = {"throughput": model, "cpu": where["cpu"], "cores": where["cores"]}
    if arguments.throughput:
        able = [r for r in rows if r.tuned and r.middle and not missing(r.recipe.way, r.averaged)]
        contenders = [r.recipe.contender(r.averaged) for r in able]
        runs.append(key, measure(model, contenders, arguments.slices, arguments.seconds), 0)
    speeds = runs.latest(key)
    for row in rows:
        row.speeds = speeds.get(row.name, [])  # the same for every rate

    lines = document(final, rows, where, absent, arguments.seeds)
    print("\n".join(lines))
    RESULTS.mkdir(exist_ok=True)
    name = arguments.output or f"time_to_accuracy_{model}"
    report = {
        "machine": where,
        "model": model,
        "setting": dataclasses.asdict(setting),
        "rows": [dataclasses.asdict(row) for row in rows],
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(report) + "\n")
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n")
    if arguments.plot:
        plot(rows, arguments.plot)


if __name__ == "__main__":
    main()
