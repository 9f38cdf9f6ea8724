"""The cost of model averaging in an iteration, by model size and number of learners.

    python benchmarks/synchronisation_cost.py [--parameters N …] [--learners N …]

The model is a set of dense variables whose gradient is already computed. So the optimiser's
update is nearly all of a step: the worst case for averaging. Three things are measured in turn:
the iteration with `SMA`, the same with `Independent` learners, and the memory bandwidth of the
machine. The cost is the difference of the first two, slice by slice, before the median is taken.
Writes benchmarks/results/NAME.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from contenders import BANDWIDTH_BYTES, Contender
from interleave import machine, measure, spread

RESULTS = pathlib.Path(__file__).parent / "results"
PARAMETERS = [100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 25_000_000]
LEARNERS = [1, 2, 4, 8]
FLOAT_BYTES = 4
MAX_LOAD = 0.6  # per core


def update_bytes(parameters: int, learners: int, momentum: bool) -> int:
    """Returns the bytes of the learners' updates: w and g read, w written; the slot read and
    written."""
    return FLOAT_BYTES * parameters * learners * (5 if momentum else 3)


def averaging_bytes(parameters: int, learners: int, momentum: bool) -> int:
    """Returns the bytes that averaging adds, if nothing were found in a cache.

    Every learner's update also reads z. Once in an iteration z_next is computed: it reads every w
    and z and overwrites z_prev. It also reads z_prev if the central model has momentum, that is
    if the learners' optimiser has none.
    """
    if learners == 1:
        return 0  # one learner does not average
    arrays = learners + (learners + 2 + (not momentum))
    return FLOAT_BYTES * parameters * arrays


def line(x: Sequence[float], y: Sequence[float]) -> dict[str, float]:
    """Fits the line through (parameters, seconds) with the least squared deviation.

    Deviations are weighted with 1 / parameters, lest only the largest model count.

    Returns:
      intercept_s, s_per_parameter, and r2: the share of the variance that it explains.
    """
    slope, intercept = np.polyfit(x, y, 1, w=1 / np.asarray(x, float))
    rest = np.asarray(y) - (intercept + slope * np.asarray(x))
    return {
        "intercept_s": float(intercept),
        "s_per_parameter": float(slope),
        "r2": float(1 - np.sum(rest**2) / np.sum((y - np.mean(y)) ** 2)),
    }


def contenders(parameters: int, learners: int, momentum: float) -> list[Contender]:
    """Returns the contenders for one model size and number of learners."""
    settings = {"parameters": parameters, "learners": learners, "momentum": momentum}
    return [
        Contender("with", "dense_update", 1, {**settings, "averaging": True}),
        Contender("without", "dense_update", 1, {**settings, "averaging": False}),
        Contender("bandwidth", "memory_bandwidth", BANDWIDTH_BYTES),
    ]


def cell(values: Sequence[float], scale: float, digits: int) -> str:
    """Returns median and quartiles."""
    median, low, high = (v * scale for v in spread(values))
    return f"{median:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parameters", type=int, nargs="+", default=PARAMETERS)
    parser.add_argument("--learners", type=int, nargs="+", default=LEARNERS)
    parser.add_argument("--momentum", type=float, default=0.0, help="of the learners' optimiser")
    parser.add_argument("--slices", type=int, default=11, help="slices of each contender")
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a slice")
    parser.add_argument("--output", default="synchronisation_cost", help="name of the results")
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    if os.getloadavg()[0] > MAX_LOAD * cores:
        sys.exit(
            f"times need an idle machine: the load average is {os.getloadavg()[0]:.2f}, wanted "
            f"at most {MAX_LOAD * cores:.2f}; try again later"
        )
    momentum = bool(arguments.momentum)
    where = machine()
    lines = [
        "# The cost of synchronous model averaging",
        "",
        f"{where['cpu']}, {where['cores']} cores, {where['memory_gib']} GiB; TensorFlow "
        f"{where['tensorflow']}, Python {where['python']}; {where['date']}.",
        f"{arguments.slices} slices of {arguments.seconds} s each, taken in turn; medians with "
        "quartiles. The step is the optimiser's update "
        f"({f'momentum {arguments.momentum:g}' if momentum else 'plain gradient descent'}) and "
        "nothing else: in training, forward and backward passes come on top, averaging does "
        "not grow. Averaging is the difference between `SMA` and `Independent`. Bytes are what "
        "the algorithm touches per iteration (docstrings of this benchmark), as if nothing "
        "were found in a cache; bandwidth is NumPy's `a = b + c` on every core at once, out of "
        "cache, in the same minute. A fraction above 100 % means that caches served.",
    ]
    report: dict[str, Any] = {"machine": where, "momentum": arguments.momentum, "rows": []}
    fits = [
        "",
        "| learners | seconds per million parameters | intercept | R² |",
        "|---|---|---|---|",
    ]
    for learners in arguments.learners:
        lines += [
            "",
            f"## {learners} learner{'s' if learners > 1 else ''}",
            "",
            "| parameters | with averaging, ms | without, ms | averaging, ms | averaging, MB "
            "| of the bandwidth | whole step, of the bandwidth |",
            "|---|---|---|---|---|---|---|",
        ]
        costs = []
        for parameters in arguments.parameters:
            measured = measure(
                "dense",
                contenders(parameters, learners, arguments.momentum),
                arguments.slices,
                arguments.seconds,
            )
            after, before = (1 / np.array(measured[name]) for name in ("with", "without"))
            cost, bandwidth = after - before, np.array(measured["bandwidth"])
            moved = averaging_bytes(parameters, learners, momentum)
            whole = moved + update_bytes(parameters, learners, momentum)
            share = "—" if not moved else f"{np.median(moved / bandwidth) / np.median(cost):.0%}"
            costs.append(float(np.median(cost)))
            lines.append(
                f"| {parameters:,} | {cell(after, 1e3, 3)} | {cell(before, 1e3, 3)} "
                f"| {cell(cost, 1e3, 3)} | {moved / 1e6:.1f} | {share} "
                f"| {np.median(whole / bandwidth / after):.0%} |"
            )
            print(learners, lines[-1], flush=True)
            report["rows"].append(
                {
                    "parameters": parameters,
                    "learners": learners,
                    "with_s": after.tolist(),
                    "without_s": before.tolist(),
                    "bandwidth_bytes_per_s": bandwidth.tolist(),
                    "averaging_bytes": moved,
                    "update_bytes": whole - moved,
                }
            )
        if len(costs) > 2 and learners > 1:
            fit = line(arguments.parameters, costs)
            report.setdefault("fits", {})[learners] = fit
            fits.append(
                f"| {learners} | {fit['s_per_parameter'] * 1e6:.6f} "
                f"| {fit['intercept_s'] * 1e6:.0f} µs | {fit['r2']:.4f} |"
            )
    lines += ["", "## Linear in the parameters?", *fits]
    print("\n".join(lines))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{arguments.output}.json").write_text(json.dumps(report, indent=1) + "\n")
    (RESULTS / f"{arguments.output}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
