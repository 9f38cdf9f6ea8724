"""The effect of the momentum of AdaptiveSGD's merges on training on Bibtex.

    python benchmarks/adaptive_momentum.py --data FOLDER

The program of adaptive.py, two learners that take turns, so that what they learn does not depend
on the machine: by momentum and rows between two merges, the rows and seconds until a precision
is reached, with each of some learning rates. Momentum over mega-batches makes steps longer, up
to 1 / (1 - momentum) times. So it needs small rates. Writes benchmarks/results/NAME.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
from typing import Any

import numpy as np
from adaptive import BATCH, DROPOUT, MEGA_BATCH, RESULTS, Rows, seconds_to
from interleave import machine, told

import tensorbow

TRAIN_ROWS = 4880


def outcomes_of(
    momentum: float,
    mega_batch: int,
    rate: float,
    data: tuple[Rows, Rows],
    arguments: argparse.Namespace,
) -> list[dict[str, Any]]:
    """Returns the outcomes of each seed."""
    adaptive = tensorbow.AdaptiveSGD(
        b_max=BATCH, mega_batch=mega_batch, momentum=momentum, scaling=False
    )
    return [
        seconds_to(
            adaptive, rate, seed, *data, arguments.goal, arguments.epochs, scheduling="round_robin"
        )
        for seed in range(arguments.seeds)
    ]


def cell(runs: list[dict[str, Any]]) -> str:
    """Returns rows and seconds until the goal, or the number of runs that miss it."""
    missed = sum(run["seconds"] is None for run in runs)
    if missed:
        best = float(np.median([run["best"] for run in runs]))
        return f"not in {missed} of {len(runs)} ({best:.1%})"
    rows = int(np.median([run["rows"] for run in runs]))
    return f"{rows:,} [{np.median([run['seconds'] for run in runs]):.2f} s]"


def lines_of(report: dict[str, Any]) -> list[str]:
    rates = list(report["rows"][0]["by_rate"])
    lines = [
        "# The momentum of AdaptiveSGD's merges",
        "",
        f"{told(report['machine'])} The load average was {report['load']:.1f} at the beginning.",
        f"Bibtex, two learners that take turns, batches of {BATCH} rows (scaling=False), Adam, "
        f"dropout {DROPOUT:g}: rows trained on until precision@1 is {report['goal']:.0%}, the "
        f"median of {report['seeds']} seeds, in square brackets the seconds; or in how many runs "
        f"it is not reached in {report['epochs']} epochs, which have "
        f"{report['epochs'] * TRAIN_ROWS:,} rows, and the median of the best precision@1 then. By "
        "rate of learning.",
        "",
        "| momentum | rows between merges | " + " | ".join(rates) + " |",
        "|---|---|" + "---|" * len(rates),
    ]
    for row in report["rows"]:
        cells = [cell(row["by_rate"][rate]) for rate in rates]
        name = f"{row['momentum']:g} | {row['mega_batch']:,}"
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, required=True, help="of bibtex_*.libsvm.gz")
    parser.add_argument("--momenta", type=float, nargs="+", default=[0, 0.5, 0.9])
    parser.add_argument(
        "--mega-batches", type=int, nargs="+", default=[10 * BATCH, MEGA_BATCH, 100 * BATCH]
    )
    parser.add_argument(
        "--rates", type=float, nargs="+", default=[0.0002, 0.0005, 0.001, 0.002, 0.004]
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--goal", type=float, default=0.6)
    parser.add_argument("--epochs", type=int, default=40, help="at most")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder")
    parser.add_argument("--output", default="adaptive_momentum", help="name of the results")
    arguments = parser.parse_args()
    train, test = (Rows(arguments.data / f"bibtex_{part}.libsvm.gz") for part in ("train", "test"))
    report: dict[str, Any] = {
        "machine": machine(),
        "load": os.getloadavg()[0],
        "seeds": arguments.seeds,
        "goal": arguments.goal,
        "epochs": arguments.epochs,
        "rows": [],
    }
    for mega_batch in arguments.mega_batches:
        for momentum in arguments.momenta:
            by_rate = {}
            for rate in arguments.rates:
                runs = outcomes_of(momentum, mega_batch, rate, (train, test), arguments)
                by_rate[f"{rate:g}"] = runs
                print(mega_batch, momentum, rate, cell(runs), flush=True)
            report["rows"].append(
                {"momentum": momentum, "mega_batch": mega_batch, "by_rate": by_rate}
            )
    lines = lines_of(report)
    target = arguments.results / f"{arguments.output}.json"
    arguments.results.mkdir(exist_ok=True)
    target.write_text(json.dumps(report, indent=1) + "\n")
    target.with_suffix(".md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
