"""Runs thousands of drawn programs, records their outcomes, and continues after failures.

    python -m tests.oracle.grammar.campaign --seed 1 --seconds 3000 --log build/campaign.jsonl

`--count` prints what logs say. A crash leaves the program in `<log>.current`.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import gc
import json
import pathlib
import time
from typing import Any

import numpy as np

import tests.oracle.conftest  # noqa: F401  (before TensorFlow is used)
from tests.oracle.grammar import long_runs, words


def record(program: Any, learners: tuple[int, ...] = long_runs.LEARNERS) -> dict[str, Any]:
    """Runs a program; returns its outcome in plain types."""
    start = time.monotonic()
    found: dict[str, Any] = {"program": repr(program)}
    try:
        comparison = long_runs.Comparison(program)
    except Exception as error:
        return found | {"stock": f"{type(error).__name__}: {error}"[:1000]}
    for number in learners:
        try:
            outcome = comparison.with_learners(number)
            found[str(number)] = {
                "difference": outcome.difference,
                "alone": outcome.alone,
                "chaotic": outcome.chaotic,
                "warnings": outcome.warnings,
            }
        except AssertionError as error:
            kind = "hang" if str(error).startswith("no end") else "error"
            found[str(number)] = {kind: str(error)[:2000]}
    return found | {"seconds": round(time.monotonic() - start, 2)}


def draw(seed: int, seconds: float, log: pathlib.Path) -> None:
    """Records drawn programs until the time is up."""
    end = time.monotonic() + seconds
    gc.freeze()  # what has been imported need not be searched again and again
    gc.set_threshold(100_000, 20, 100)
    current = log.with_suffix(".current")

    random = np.random.default_rng(seed)
    while time.monotonic() < end:
        program = words.compose(lambda names: names[random.integers(len(names))])
        if not words.fits(program) or words.is_known(program):
            continue
        current.write_text(repr(program))
        with log.open("a") as file:
            file.write(json.dumps(record(program)) + "\n")
    current.unlink(missing_ok=True)


def count(logs: list[pathlib.Path]) -> None:
    """Prints the numbers of logs."""
    lines = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    numbers: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    for line in lines:
        sessions = [line[key] for key in ("2", "3") if key in line]
        for session in sessions:
            numbers["sessions"] += 1
            for kind in ("difference", "hang", "error", "chaotic"):
                numbers[kind] += bool(session.get(kind))
            numbers["divided"] += session.get("alone") == ""
            if session.get("alone"):
                reasons[session["alone"]] += 1
        numbers["stock fails"] += "stock" in line
    print(f"{len(lines)} programs, {len({line['program'] for line in lines})} distinct")
    print(dict(numbers))
    for reason, times in reasons.most_common(40):
        print(f"{times:6d}  {reason}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--log", type=pathlib.Path, default=pathlib.Path("build/campaign.jsonl"))
    parser.add_argument("--count", type=pathlib.Path, nargs="*")
    arguments = parser.parse_args()
    faulthandler.enable()
    if arguments.count:
        count(arguments.count)
    else:
        draw(arguments.seed, arguments.seconds, arguments.log)


if __name__ == "__main__":
    main()
