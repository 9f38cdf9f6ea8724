"""The command line of a benchmark that makes a table with a row for each network."""

from __future__ import annotations

import argparse
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from interleave import machine
from networks import NETWORKS

RESULTS = pathlib.Path(__file__).parent / "results"


def make(
    description: str,
    output: str,
    networks: Sequence[str],
    numbers: dict[str, int | float],
    measure: Callable[..., dict[str, Any]],
    document: Callable[..., str],
) -> None:
    """Measures networks one after the other and writes results/NAME.{json,md} after each.

    Args:
      description: of the benchmark.
      output: NAME, if the command line has no --output.
      networks: to measure, if the command line has no --networks.
      numbers: further arguments of the command line, with their defaults.
      measure: called with the name of a network and `numbers`; what it found.
      document: called with the machine, what was found by network, and `numbers`; the
        report as Markdown, whose last line is that of the network measured last.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--networks", nargs="+", default=list(networks), choices=list(NETWORKS))
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--output", default=output, help="name of the results")
    arguments = parser.parse_args()
    given = {name: getattr(arguments, name) for name in numbers}
    where = machine()
    rows: dict[str, Any] = {}
    RESULTS.mkdir(exist_ok=True)
    for name in arguments.networks:
        rows[name] = measure(name, **given)
        report = {"machine": where, "networks": rows}
        (RESULTS / f"{arguments.output}.json").write_text(json.dumps(report, indent=1) + "\n")
        text = document(where, rows, **given)
        (RESULTS / f"{arguments.output}.md").write_text(text)
        print(text.splitlines()[-1], flush=True)
