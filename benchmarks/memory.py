"""The memory that a model takes: stock TensorFlow against every synchroniser of TensorBow.

    python benchmarks/memory.py [--parameters N] [--learners N] [--optimiser sgd adam]

A dense network is trained for some steps on few rows, so that activations are small compared with
weights, gradients and slots. Every contender is a fresh process, and each of its measurements
another one. *Resident* is the growth of the process since its graph and session exist, before a
variable is initialised; *peak* is the growth at its largest moment, until the end of the first step
and later. Writes benchmarks/results/NAME.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from fully_connected import CLASSES, INPUTS, RATES
from interleave import environment, machine, spread
from ways import STOCK, SYNCHRONISERS, Way, available

RESULTS = pathlib.Path(__file__).parent / "results"
ROWS_PER_LEARNER = 2
STEPS = 10
HIDDEN_LAYERS = 3
KINDS = ("resident", "first", "later")


def hidden_units(parameters: int) -> int:
    """Returns the units of each hidden layer for a network of about `parameters` parameters."""
    # INPUTS·u + u, then u² + u for each further hidden layer, then CLASSES·u + CLASSES.
    a, b = HIDDEN_LAYERS - 1, INPUTS + CLASSES + HIDDEN_LAYERS
    c = CLASSES - parameters
    return max(1, round((-b + math.sqrt(b * b - 4 * a * c)) / (2 * a)))


def count(units: int) -> int:
    """Returns the parameters of the network with `units` in each hidden layer."""
    sizes = [INPUTS, *[units] * HIDDEN_LAYERS, CLASSES]
    return sum((i + 1) * o for i, o in zip(sizes, sizes[1:]))


def resident_bytes() -> int:
    """Returns the resident bytes of this process."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_bytes() -> int:
    """Returns the most resident bytes of this process, ever or since `forget_peak`."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def forget_peak() -> None:
    """Starts the measurement of the peak again."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def growth(
    units: int,
    optimiser: str,
    steps: int,
    synchroniser: str,
    arguments: dict[str, Any],
    learners: int,
) -> dict[str, int]:
    """Returns the bytes by which this process grows: after training, and at its largest until the
    first step has ended and later.
    """
    import fully_connected
    from ways import session

    random = np.random.default_rng(0)
    rows = ROWS_PER_LEARNER * learners

    def train(hidden: Sequence[int], steps: int) -> dict[str, int]:
        def make(_: Any) -> Any:
            return fully_connected.optimiser(optimiser, RATES[optimiser])

        program = fully_connected.build(hidden, make, seed=1)
        feeds = {
            program["images"]: random.random((rows, INPUTS), np.float32),
            program["labels"]: random.integers(0, CLASSES, rows).astype(np.int32),
        }
        with session(program["graph"], synchroniser, arguments, learners) as trained:
            forget_peak()
            before = resident_bytes()
            trained.run(program["init"])
            trained.run(program["train_op"], feeds)
            first = peak_bytes() - before
            forget_peak()
            for _ in range(steps - 1):
                trained.run(program["train_op"], feeds)
            later = peak_bytes() - before
            return {"resident": resident_bytes() - before, "first": first, "later": later}

    train([4] * HIDDEN_LAYERS, 2)  # from now on threads, kernels and libraries exist
    return train([units] * HIDDEN_LAYERS, steps)


def measure(
    way: Way, units: int, optimiser: str, steps: int, learners: int, repeats: int
) -> dict[str, list[int]]:
    """Returns `growth` in each of several fresh processes."""
    job = {"units": units, "optimiser": optimiser, "steps": steps, **way.settings(learners)}
    found: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for _ in range(repeats):
        output = subprocess.run(
            [sys.executable, __file__, "--job", json.dumps(job)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment("cpu"),
            check=True,
        )
        for key, value in json.loads(output.stdout.splitlines()[-1]).items():
            found[key].append(value)
    return found


def table(rows: dict[str, dict[str, Any]]) -> list[str]:
    """Returns Markdown: bytes per parameter."""
    lines = [
        "| | learners | resident | peak, first step | peak, later steps |",
        "|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        cells = [name, str(row["learners"])]
        for kind in KINDS:
            median, low, high = spread(np.divide(row[kind], row["parameters"]).tolist())
            cells.append(f"{median:.1f} ({low:.1f}–{high:.1f})")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Measures, prints and writes; or, as the process of a contender, measures itself."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parameters", type=int, default=25_000_000)
    parser.add_argument("--learners", type=int, default=2)
    parser.add_argument("--optimiser", nargs="+", choices=RATES, default=["sgd", "adam"])
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--repeats", type=int, default=3, help="processes of each contender")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder")
    parser.add_argument("--output", default="memory", help="name of the result files")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        print(json.dumps(growth(**json.loads(arguments.job))))
        return

    units = hidden_units(arguments.parameters)
    parameters = count(units)
    ways, absent = available([STOCK, *SYNCHRONISERS])
    where = machine()
    lines = [
        "# Memory",
        "",
        f"{where['cpu']}, {where['cores']} cores, {where['memory_gib']} GiB; TensorFlow "
        f"{where['tensorflow']}, Python {where['python']}; {where['date']}.",
        f"A dense network of {parameters:,} parameters of 4 bytes, {arguments.steps} steps with "
        f"{ROWS_PER_LEARNER} rows per learner; {arguments.repeats} processes each, medians with "
        "quartiles. Bytes per parameter by which the process has grown, from the session without "
        "variables to the end of training (resident), and at its largest until the end of the "
        "first step, and later.",
        *absent,
    ]
    report: dict[str, Any] = {"machine": where, "rows": {}}
    for optimiser in arguments.optimiser:
        rows: dict[str, dict[str, Any]] = {}
        for way in ways:
            found = measure(
                way, units, optimiser, arguments.steps, arguments.learners, arguments.repeats
            )
            learners = way.settings(arguments.learners)["learners"]
            rows[way.name] = {"parameters": parameters, "learners": learners, **found}
            print(optimiser, table({way.name: rows[way.name]})[-1], flush=True)
        lines += ["", f"## {optimiser}", "", *table(rows)]
        report["rows"][optimiser] = rows
    print("\n".join(lines))
    arguments.results.mkdir(parents=True, exist_ok=True)
    (arguments.results / f"{arguments.output}.json").write_text(json.dumps(report, indent=1) + "\n")
    (arguments.results / f"{arguments.output}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
