"""The cost of changing the number of learners, and of finding it.

    python benchmarks/layout_changes.py [--networks NAME …] [--changes N]

*A change*: `session.set_learners` between runs and the first run after it, which compiles, minus
a later run of the same layout. *Finding*: the time from the first run of a session that finds
its number of learners until it is settled. Its training in that time is compared with that of
the settled layout at its later pace. Writes benchmarks/results/NAME.{json,md}.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import network_table
import numpy as np
from interleave import answer_of, spread, told
from networks import network_program

CHOSEN = (
    "LeNet 32",
    "25 million parameters, Adam, 32",
    "ResNet-20 32",
    "LSTM 32",
    "MLP 3×512, Adam, 32",
)
LATER = 10  # runs after a change; their median is an ordinary run
PACE_SECONDS = 5.0  # the time in which the later pace is measured
MOST_SECONDS = 120.0  # the limit for finding


def change(name: str, count: int) -> dict[str, list[float]]:
    """Returns the seconds of changes between one learner and one for every core."""
    import tensorbow
    from tensorbow.options import cores

    graph, train_op, init, batches = network_program(name)
    found: dict[str, list[float]] = {"change": [], "first run after": []}
    options = tensorbow.Options(learners_per_device=cores())
    with tensorbow.TensorBowSession(graph=graph, options=options) as session:
        session.run(init)
        for _ in range(LATER):
            session.run(train_op, batches[0])
        for k in range(count):
            begin = time.perf_counter()
            session.set_learners(1 if k % 2 == 0 else cores())
            changed = time.perf_counter()
            session.run(train_op, batches[0])
            ran = time.perf_counter()
            ordinary = []
            for _ in range(LATER):
                start = time.perf_counter()
                session.run(train_op, batches[0])
                ordinary.append(time.perf_counter() - start)
            found["change"].append(changed - begin)
            found["first run after"].append(ran - changed - float(np.median(ordinary)))
    return found


def finding(name: str) -> dict[str, float]:
    """Returns the seconds until the number of learners is settled, and the lost ones among them."""
    import tensorbow

    graph, train_op, init, batches = network_program(name)
    options = tensorbow.Options(learners_per_device="auto")
    with tensorbow.TensorBowSession(graph=graph, options=options) as session:
        session.run(init)
        begin = time.perf_counter()
        while not any(tried.chosen for tried in session.tuning):
            session.run(train_op, batches[0])
            if time.perf_counter() - begin > MOST_SECONDS:
                break
        settled = time.perf_counter() - begin
        trained = session.samples_seen
        for _ in range(LATER):
            session.run(train_op, batches[0])
        start, seen = time.perf_counter(), session.samples_seen
        while time.perf_counter() - start < PACE_SECONDS:
            session.run(train_op, batches[0])
        pace = (session.samples_seen - seen) / (time.perf_counter() - start)
        return {
            "settled": settled,
            "lost": settled - trained / pace,
            "learners": session.num_learners,
            "layouts": len(session.tuning),
        }


def measure(name: str, changes: int) -> dict[str, Any]:
    """Measures both, each in a process of its own."""
    found = []
    for what in ("changes", "finding"):
        found.append(answer_of(__file__, "--process", what, name, str(changes)))
    return {"changes": found[0], "finding": found[1]}


def cell(values: list[float]) -> str:
    """Returns median and quartiles, in milliseconds."""
    return "{:.0f} ({:.0f}–{:.0f})".format(*(1e3 * value for value in spread(values)))


def document(where: dict[str, Any], rows: dict[str, Any], changes: int) -> str:
    """Returns the report as Markdown."""
    lines = [
        "# What changing and finding the number of learners costs",
        "",
        f"{told(where)} Milliseconds, medians of {changes} changes between one learner and one for "
        "every core, with quartiles; seconds of training until the number of learners is settled, "
        "and how many of these would have been enough at the pace afterwards.",
        "",
        "| network, rows of a run | set_learners, ms | first run after it, more by ms | settled "
        "after, s | of which lost, s | layouts tried | learners |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in rows.items():
        taken, tuned = found["changes"], found["finding"]
        lines.append(
            f"| {name} | {cell(taken['change'])} | {cell(taken['first run after'])} | "
            f"{tuned['settled']:.1f} | {tuned['lost']:.1f} | {tuned['layouts']} | "
            f"{tuned['learners']} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    if sys.argv[1:2] == ["--process"]:
        what, name, count = sys.argv[2:]
        print(json.dumps(change(name, int(count)) if what == "changes" else finding(name)))
        return
    numbers: dict[str, int | float] = {"changes": 20}
    description = __doc__.splitlines()[0]
    network_table.make(description, "layout_changes", CHOSEN, numbers, measure, document)


if __name__ == "__main__":
    main()
