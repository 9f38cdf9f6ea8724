"""Measures samples per second on a GPU: stock TensorFlow against TensorBow.

    python benchmarks/gpu_throughput.py [--rows lenet:16 …] [--learners 1 2 4 8] [--state DIR]

Every contender is a process of its own; they take turns in short slices, and ratios are
formed slice by slice (see interleave.py). A contender that fails is left out and named;
its messages are in DIR/MODEL_BATCH.log. A row whose result is in DIR is not measured
again. Writes NAME.{json,md} into --results.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import random
import re
import subprocess
import sys
import time
from typing import Any

import numpy as np
from contenders import Contender
from interleave import Process, ProcessEndedError, machine, spread

RESULTS = pathlib.Path(__file__).parent / "results"
ROWS = ["lenet:4", "lenet:16", "lenet:64", "resnet32:16", "resnet32:32", "resnet32:128"]
STOCK = "tf.Session"


def contenders(batch: int, learners: list[int], graphs: list[str], device: str) -> list[Contender]:
    """Lists everything that is compared at `batch` rows per learner; the first is the baseline.

    `graphs` are values of `Options.cuda_graphs`, or "default" to leave it out.
    """
    found = [
        Contender(STOCK, "stock_session", batch, device=device),
        Contender(f"{STOCK}, XLA", "stock_session", batch, {"xla": True}, device),
    ]
    for n in learners:
        for value in graphs:
            for averaging in (True, False):
                if n == 1 and not averaging:
                    continue  # there is nothing to average
                how = "" if n == 1 else ", SMA" if averaging else ", no averaging"
                name = f"{n} learner{'s' if n > 1 else ''}{how}, graphs {value}"
                options = {} if value == "default" else {"cuda_graphs": value}
                settings = {"learners": n, "averaging": averaging, "options": options}
                found.append(Contender(name, "tensorbow_session", n * batch, settings, device))
    return found


def measure(
    model: str, compared: list[Contender], slices: int, seconds: float, log: pathlib.Path
) -> tuple[dict[str, list[float]], list[str]]:
    """Returns samples/s by contender and slice, and messages about those that failed."""
    failures: list[str] = []
    with log.open("w") as messages:
        processes = [Process(contender, model, messages) for contender in compared]
        alive = []
        for process in processes:
            try:
                process.wait_until_ready()
                process.calibrate(seconds)
                alive.append(process)
            except ProcessEndedError as error:
                failures.append(str(error))
        speeds: dict[str, list[float]] = {p.contender.name: [] for p in alive}
        shuffle = random.Random(0)
        for _ in range(slices):
            shuffle.shuffle(alive)
            for process in list(alive):
                try:
                    speeds[process.contender.name].append(process.slice())
                except ProcessEndedError as error:
                    failures.append(str(error))
                    del speeds[process.contender.name]
                    alive.remove(process)
        for process in processes:
            process.end()
    return speeds, failures


def table(speeds: dict[str, list[float]]) -> list[str]:
    """Returns Markdown: samples/s with quartiles, the ratio to stock, and the cost of averaging."""
    lines = [
        f"| | samples/s (quartiles) | ÷ {STOCK} | averaging costs |",
        "|---|---|---|---|",
    ]
    for name, values in speeds.items():
        median, low, high = spread(values)
        ratio = "—"
        if STOCK in speeds:
            middle, ratio_low, ratio_high = spread(np.divide(values, speeds[STOCK]))
            ratio = f"{middle:.2f} ({ratio_low:.2f}–{ratio_high:.2f})"
        cost = "—"
        without = speeds.get(name.replace("SMA", "no averaging"))
        if "SMA" in name and without is not None:
            cost = f"{float(np.median(1 - np.divide(values, without))):.1%}"
        lines.append(f"| {name} | {median:,.0f} ({low:,.0f}–{high:,.0f}) | {ratio} | {cost} |")
    return lines


def reasons(log: pathlib.Path) -> list[str]:
    """Returns why tasks for CUDA graphs were executed op by op instead."""
    return sorted(set(re.findall(r'cuda_graphs="on": .* op by op, because (.*)', log.read_text())))


def gpus() -> str:
    """Returns the GPUs of this machine as a text."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        return "; ".join(subprocess.check_output(query, text=True).splitlines())
    return "no GPU"


def report(where: dict[str, Any], rows: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Writes the present results."""
    lines = [
        "# Throughput on a GPU",
        "",
        f"{where['gpu']}; {where['cpu']}, {where['cores']} cores; TensorFlow "
        f"{where['tensorflow']}, Python {where['python']}; {where['date']}.",
        f"{arguments.slices} slices of {arguments.seconds} s each, taken in turn; medians with "
        "quartiles. Feed dicts; the same batch per learner as stock's. What averaging costs is "
        "against the same learners without it.",
    ]
    for row, result in rows.items():
        model, batch = row.split(":")
        lines += ["", f"## {model}, batch {batch} per learner", ""]
        lines += table(result["samples_per_s"])
        if result["op by op"]:
            why = "; ".join(result["op by op"])
            lines += ["", f'Nothing was captured with graphs "on": {why}.']
        if result["failures"]:
            lines += ["", "Failed: " + "; ".join(result["failures"]) + "."]
    arguments.results.mkdir(parents=True, exist_ok=True)
    content = {"machine": where, "slices": arguments.slices, "rows": rows}
    (arguments.results / f"{arguments.output}.json").write_text(json.dumps(content, indent=1))
    (arguments.results / f"{arguments.output}.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", default=ROWS, metavar="MODEL:BATCH")
    parser.add_argument("--learners", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--graphs", nargs="+", default=["off", "on"], help="cuda_graphs")
    parser.add_argument("--slices", type=int, default=9, help="slices of each contender")
    parser.add_argument("--seconds", type=float, default=0.4, help="length of a slice")
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--only", help="only contenders whose name contains this, and stock")
    parser.add_argument("--state", type=pathlib.Path, default=pathlib.Path("build/gpu"))
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--output", default="gpu_throughput", help="name of the results")
    parser.add_argument("--until", type=float, help="begins no row after this UNIX time")
    arguments = parser.parse_args()
    arguments.state.mkdir(parents=True, exist_ok=True)
    where = dict(machine(), gpu=gpus())
    rows: dict[str, Any] = {}
    left_out = []
    for row in arguments.rows:
        model, batch = row.split(":")
        kept = arguments.state / f"{arguments.output}_{model}_{batch}.json"
        if kept.exists():
            rows[row] = json.loads(kept.read_text())
            continue
        if arguments.until and time.time() > arguments.until:
            left_out.append(row)
            continue
        compared = contenders(int(batch), arguments.learners, arguments.graphs, arguments.device)
        if arguments.only:
            compared = compared[:1] + [c for c in compared[1:] if arguments.only in c.name]
        speeds, failures = measure(
            model, compared, arguments.slices, arguments.seconds, kept.with_suffix(".log")
        )
        said = reasons(kept.with_suffix(".log"))
        rows[row] = {"samples_per_s": speeds, "failures": failures, "op by op": said}
        kept.write_text(json.dumps(rows[row]))
        print("\n".join(["", f"## {row}", "", *table(speeds), *failures]), flush=True)
        report(where, rows, arguments)
    report(where, rows, arguments)
    if left_out:
        sys.exit(f"no time was left for {' '.join(left_out)}; run it again to go on")


if __name__ == "__main__":
    main()
