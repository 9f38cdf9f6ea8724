"""The cost of a trace for the traced program.

    python benchmarks/observability.py [--networks NAME …] [--slices N]

Two sessions in one process train the same network on one learner for every core, in turn, in
short slices: one is traced all the time. Writes benchmarks/results/NAME.{json,md}.
"""

from __future__ import annotations

import pathlib
import tempfile
import time
from typing import Any

import network_table
import numpy as np
from interleave import spread, told
from networks import NETWORKS, network_program

CHOSEN = ("logistic 32", "LeNet 32", "MLP 3×512, Adam, 32", "ResNet-20 32")


def measure(name: str, slices: int, seconds: float) -> dict[str, Any]:
    """Returns samples/s with and without a trace by slice, and bytes of the trace for a run."""
    import tensorbow
    from tensorbow.options import cores

    graph, train_op, init, batches = network_program(name)
    options = tensorbow.Options(learners_per_device=cores())
    rows = NETWORKS[name].rows
    speeds: dict[str, list[float]] = {"plain": [], "traced": []}
    sessions = {kind: tensorbow.TensorBowSession(graph=graph, options=options) for kind in speeds}

    def train(kind: str, count: int) -> float:
        start = time.perf_counter()
        for k in range(count):
            sessions[kind].run(train_op, batches[k % len(batches)])
        return time.perf_counter() - start

    for kind, session in sessions.items():
        session.run(init)
        train(kind, 10)
    count = max(2, round(10 * seconds / train("plain", 10)))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        with sessions["traced"].trace(path):
            for k in range(slices):
                for kind in ("plain", "traced") if k % 2 else ("traced", "plain"):
                    speeds[kind].append(count * rows / train(kind, count))
        size = path.stat().st_size
    for session in sessions.values():
        session.close()
    return {"samples_per_second": speeds, "bytes_per_run": size / (count * slices)}


def document(where: dict[str, Any], rows: dict[str, Any], slices: int, seconds: float) -> str:
    """Returns the report as Markdown."""
    lines = [
        "# What a trace costs",
        "",
        f"{told(where)} Samples/s, traced ÷ not traced, medians of {slices} interleaved slices "
        "with quartiles.",
        "",
        "| network, rows of a run | not traced, samples/s | traced ÷ not traced | bytes of the "
        "trace for a run |",
        "|---|---|---|---|",
    ]
    for name, found in rows.items():
        speeds = found["samples_per_second"]
        plain = spread(speeds["plain"])[0]
        ratio = spread(list(np.divide(speeds["traced"], speeds["plain"])))
        lines.append(
            f"| {name} | {plain:,.0f} | {ratio[0]:.3f} ({ratio[1]:.3f}–{ratio[2]:.3f}) | "
            f"{found['bytes_per_run']:,.0f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    numbers: dict[str, int | float] = {"slices": 21, "seconds": 0.5}
    description = __doc__.splitlines()[0]
    network_table.make(description, "observability", CHOSEN, numbers, measure, document)


if __name__ == "__main__":
    main()
