"""What the momentum of AdaptiveSGD's merges does to training on Bibtex.

    python benchmarks/adaptive_momentum.py --data FOLDER

The program of adaptive.py, two learners on a core each: by momentum and rows between two
merges, the rows and seconds until a precision is reached, with each of some learning rates.
Momentum that looks back over mega-batches makes steps longer, up to 1 / (1 - momentum) times,
so that small rates belong to it. Writes benchmarks/results/NAME.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
from typing import Any

import numpy as np
from adaptive import BATCH, DROPOUT, MEGA_BATCH, RESULTS, Rows, cell, seconds_to
from interleave import machine, told

import tensorbow


def outcomes_of(
    momentum: float, mega_batch: int, rate: float, data: tuple[Rows, Rows], arguments: Any
) -> list[dict[str, Any]]:
    """Of each seed."""
    adaptive = tensorbow.AdaptiveSGD(b_max=BATCH, mega_batch=mega_batch, momentum=momentum)
    return [
        seconds_to(adaptive, rate, seed, *data, arguments.goal, arguments.epochs)
        for seed in range(arguments.seeds)
    ]


def best_of(by_rate: dict[str, list[dict[str, Any]]]) -> str:
    """The rate with which all seeds reach the goal after the fewest rows; if none has them all
    reach it, the one with the best precision."""

    def rank(rate: str) -> tuple[float, ...]:
        runs = by_rate[rate]
        missed = sum(run["seconds"] is None for run in runs)
        if missed:
            return 1, -float(np.median([run["best"] for run in runs])), 0
        return (
            0,
            float(np.median([run["rows"] for run in runs])),
            float(np.median([run["seconds"] for run in runs])),
        )

    return min(by_rate, key=rank)


def table(report: dict[str, Any]) -> list[str]:
    lines = [
        "| momentum | rows between merges | best rate | seconds [rows] | best precision@1 |",
        "|---|---|---|---|---|",
    ]
    for row in report["rows"]:
        rate = best_of(row["by_rate"])
        runs = row["by_rate"][rate]
        best = float(np.median([run["best"] for run in runs]))
        lines.append(
            f"| {row['momentum']:g} | {row['mega_batch']:,} | {rate} | {cell(runs)} | {best:.1%} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, required=True, help="of bibtex_*.libsvm.gz")
    parser.add_argument("--momenta", type=float, nargs="+", default=[0, 0.5, 0.9])
    parser.add_argument("--mega-batches", type=int, nargs="+", default=[10 * BATCH, MEGA_BATCH])
    parser.add_argument(
        "--rates", type=float, nargs="+", default=[0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.004]
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--goal", type=float, default=0.6)
    parser.add_argument("--epochs", type=int, default=40, help="at most")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder")
    parser.add_argument("--output", default="adaptive_momentum", help="name of the results")
    arguments = parser.parse_args()
    data = tuple(Rows(arguments.data / f"bibtex_{part}.libsvm.gz") for part in ("train", "test"))
    where, load = machine(), os.getloadavg()[0]
    report: dict[str, Any] = {"machine": where, "load": load, "rows": []}
    for mega_batch in arguments.mega_batches:
        for momentum in arguments.momenta:
            by_rate = {}
            for rate in arguments.rates:
                by_rate[f"{rate:g}"] = outcomes_of(momentum, mega_batch, rate, data, arguments)
                print(mega_batch, momentum, rate, cell(by_rate[f"{rate:g}"]), flush=True)
            report["rows"].append(
                {"momentum": momentum, "mega_batch": mega_batch, "by_rate": by_rate}
            )
    rates = ", ".join(f"{rate:g}" for rate in arguments.rates)
    lines = [
        "# The momentum of AdaptiveSGD's merges",
        "",
        f"{told(where)} The load average was {load:.1f} at the beginning.",
        f"Bibtex, two equal learners, batches of {BATCH} rows, Adam, dropout {DROPOUT:g}: seconds "
        f"of training until precision@1 is {arguments.goal:.0%}, the median of {arguments.seeds} "
        "seeds with quartiles, in brackets the rows trained on; at most "
        f"{arguments.epochs} epochs. The best of the rates {rates}: by rows, where all seeds reach "
        "it, else by precision.",
        "",
        *table(report),
    ]
    arguments.results.mkdir(exist_ok=True)
    (arguments.results / f"{arguments.output}.json").write_text(json.dumps(report, indent=1) + "\n")
    (arguments.results / f"{arguments.output}.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
