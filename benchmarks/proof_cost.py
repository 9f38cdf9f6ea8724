"""What the proof of division costs: the first run, the run that repeats it, and all others.

    python benchmarks/proof_cost.py [--models lenet resnet20] [--repeats N]

Sessions with `Options(proof="auto")` and with `proof="off"` are made in turn, in one process
for each pair, and train the same program on the same rows. Measured: the first run (which
compiles, and proves), run number 101 (which proves once more), and the median of those
between. Writes benchmarks/results/NAME.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time
from typing import Any

import numpy as np
from contenders import data, facts
from interleave import answer_of, machine, spread, told

RESULTS = pathlib.Path(__file__).parent / "results"
ROWS = {"logistic": 32, "lenet": 32, "resnet20": 64}
BETWEEN = 100  # iterations from a proof to its repetition
PROOFS = ("auto", "off")


def times(model: str, proof: str) -> dict[str, float]:
    """Seconds of the first run, of the one that repeats the proof, of one between."""
    import tensorbow
    from tensorbow import models
    from tensorbow.options import cores

    program = models.build(model, facts(model).shape)
    images, labels = (values[: ROWS[model]] for values in data(model))
    feeds = {program.images: images, program.labels: labels}
    taken = []
    options = tensorbow.Options(learners_per_device=cores(), proof=proof)
    with tensorbow.TensorBowSession(graph=program.graph, options=options) as session:
        session.run(program.init)
        for _ in range(BETWEEN + 2):
            begin = time.perf_counter()
            session.run(program.train_op, feeds)
            taken.append(time.perf_counter() - begin)
    between = taken[10:BETWEEN]
    return {
        "first": taken[0],
        "repeated": max(taken[BETWEEN : BETWEEN + 2]),
        "between": float(np.median(between)),
    }


def measure(model: str, repeats: int) -> dict[str, dict[str, list[float]]]:
    """Times by proof and kind of run; each pair in a fresh process."""
    result: dict[str, dict[str, list[float]]] = {proof: {} for proof in PROOFS}
    for _ in range(repeats):
        for proof, found in answer_of(__file__, "--process", model).items():
            for name, seconds in found.items():
                result[proof].setdefault(name, []).append(seconds)
    return result


def cell(values: list[float]) -> str:
    """Median and quartiles, in milliseconds."""
    median, low, high = (1e3 * v for v in spread(values))
    return f"{median:.2f} ({low:.2f}–{high:.2f})"


def document(where: dict[str, Any], rows: dict[str, Any], repeats: int) -> str:
    """The report as Markdown."""
    lines = [
        "# The cost of proving a division",
        "",
        f"{told(where)} {repeats} processes "
        "each; milliseconds, medians with quartiles. The first run builds and compiles the "
        "learners' graphs in both columns.",
        "",
        "| program | run | with the proof | without | difference |",
        "|---|---|---|---|---|",
    ]
    for model, found in rows.items():
        for name in ("first", "repeated", "between"):
            with_proof, without = found["auto"][name], found["off"][name]
            difference = 1e3 * float(np.median(np.subtract(with_proof, without)))
            lines.append(
                f"| {model}, {ROWS[model]} rows | {name} | {cell(with_proof)} | "
                f"{cell(without)} | {difference:+.2f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", default="proof_cost", help="name of the results")
    parser.add_argument("--process", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.process:
        # What is first in a process also loads libraries.
        times(arguments.process, "off")
        print(json.dumps({proof: times(arguments.process, proof) for proof in PROOFS}))
        return
    where = machine()
    rows = {model: measure(model, arguments.repeats) for model in arguments.models}
    RESULTS.mkdir(exist_ok=True)
    report = {"machine": where, "rows": ROWS, "seconds": rows}
    (RESULTS / f"{arguments.output}.json").write_text(json.dumps(report, indent=1) + "\n")
    text = document(where, rows, arguments.repeats)
    (RESULTS / f"{arguments.output}.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
