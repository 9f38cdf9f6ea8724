"""The speed of several hosts: MultiWorkerMirroredStrategy against TensorBow.

    python benchmarks/hosts.py [--models lenet:32 …] [--hosts N] [--slices N] [--output NAME]
    python benchmarks/hosts.py --chunks 1 2 5 10 10000 search --output hosts_chunks

The hosts are processes on this machine that talk over loopback, with a share of its cores each.
All contenders train on the same number of rows in a step, and take turns, slice by slice. A
slice is over when all hosts have done its steps. Hosts that do not average show the cost of
averaging. With --chunks, S-SGD is compared with itself: chunks of given numbers of gradients
(`Cluster(chunk=…)`) against chunks by TensorBow's own rule. Writes
benchmarks/results/NAME.{json,md}.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from contenders import WITH_ONEDNN, Contender
from interleave import Process, in_turns, machine, spread, told

from tensorbow.cli.launch import free_addresses

RESULTS = pathlib.Path(__file__).parent / "results"
# The steps that a search for the number of gradients in a chunk takes.
SEARCH_STEPS = 400
DEFAULT_ROWS = ["logistic:32", "lenet:32", "resnet20:32"]


class Hosts(Process):
    """A contender of several processes, with the interface of one for in_turns()."""

    def __init__(self, contender: Contender, model: str, hosts: int) -> None:
        self.contender = contender
        settings = [dict(contender.settings)]
        if hosts > 1:
            addresses = free_addresses(hosts)
            settings = [
                {**contender.settings, "addresses": addresses, "rank": rank}
                for rank in range(hosts)
            ]
        rows = contender.rows_per_step // hosts
        self._hosts = [
            Process(dataclasses.replace(contender, rows_per_step=rows, settings=own), model)
            for own in settings
        ]
        self._steps = 1

    def seconds(self, steps: int) -> float:
        for host in self._hosts:
            host.tell(str(steps))
        return max(host.hear("seconds") for host in self._hosts)

    def end(self) -> None:
        for host in self._hosts:
            host.close_input()
        for host in self._hosts:
            host.end()


def contenders(hosts: int, rows: int, cores: int) -> list[tuple[Contender, int]]:
    """Returns the contenders with their numbers of processes."""
    everything = hosts * rows
    mine = max(1, cores // hosts)
    learners = {"learners": mine}
    return [
        (
            Contender(f"MultiWorkerMirroredStrategy, {hosts} hosts", "host_mirrored", everything),
            hosts,
        ),
        (
            Contender(
                f"MultiWorkerMirroredStrategy, {hosts} hosts, oneDNN on",
                "host_mirrored",
                everything,
                environment=WITH_ONEDNN,
            ),
            hosts,
        ),
        (
            Contender(
                f"TensorBow, {hosts} hosts × {mine} learners",
                "host_session",
                everything,
                learners | {"averaging": True},
            ),
            hosts,
        ),
        (
            Contender(
                f"TensorBow, {hosts} hosts × {mine} learners, S-SGD",
                "host_session",
                everything,
                learners | {"averaging": True, "synchroniser": "SSGD"},
            ),
            hosts,
        ),
        (
            Contender(
                f"TensorBow, {hosts} hosts that do not average",
                "host_session",
                everything,
                learners | {"averaging": False},
                # A lone learner computes as a stock session; learners use oneDNN.
                environment=WITH_ONEDNN,
            ),
            hosts,
        ),
        (
            Contender(
                f"TensorBow, one process, {hosts * mine} learners",
                "tensorbow_session",
                everything,
                {"learners": hosts * mine},
            ),
            1,
        ),
        (Contender("tf.Session, one process", "stock_session", everything), 1),
    ]


def chunked(
    hosts: int, rows: int, cores: int, chunks: Sequence[str]
) -> list[tuple[Contender, int]]:
    """Returns S-SGD with chunks of these sizes, the own rule's first."""
    mine = max(1, cores // hosts)
    settings = {"learners": mine, "averaging": True, "synchroniser": "SSGD"}
    made = [Contender("chunks of a million elements", "host_session", hosts * rows, settings)]
    for chunk in chunks:
        of = {"chunk": chunk if chunk == "search" else int(chunk)}
        name = "a number that is searched" if chunk == "search" else f"{chunk} gradients"
        made.append(Contender(name, "host_session", hosts * rows, settings | of))
    return [(contender, hosts) for contender in made]


def measure(
    taking_turns: list[tuple[Contender, int]], model: str, slices: int, seconds: float
) -> dict[str, Any]:
    """Returns the samples/s of every contender by slice."""
    running = {contender.name: Hosts(contender, model, count) for contender, count in taking_turns}
    for contender in running.values():
        contender.wait_until_ready()
        if contender.contender.settings.get("chunk") == "search":
            contender.seconds(SEARCH_STEPS)
        contender.calibrate(seconds)
    speeds = in_turns(running, slices)
    for contender in running.values():
        contender.end()
    return speeds


def table(speeds: dict[str, list[float]]) -> list[str]:
    """Returns Markdown: samples/s with quartiles, and ratios to the first contender by slice."""
    first = next(iter(speeds))
    named = "MultiWorkerMirroredStrategy" if first.startswith("Multi") else first
    lines = [f"| | samples/s (quartiles) | ÷ {named} |", "|---|---|---|"]
    for name, values in speeds.items():
        median, low, high = spread(values)
        ratio, least, most = spread(np.divide(values, speeds[first]).tolist())
        lines.append(
            f"| {name} | {median:,.0f} ({low:,.0f}–{high:,.0f}) "
            f"| {ratio:.2f} ({least:.2f}–{most:.2f}) |"
        )
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=DEFAULT_ROWS, metavar="MODEL:ROWS")
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--slices", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.7, help="length of a slice")
    parser.add_argument("--chunks", nargs="+", metavar="N|search")
    parser.add_argument("--output", default="hosts")
    arguments = parser.parse_args(argv)
    where = machine()
    lines = [
        f"# {arguments.hosts} hosts",
        "",
        told(where)
        + " Hosts are processes on this machine with a share of its cores each; they talk over "
        "loopback. All contenders train on as many rows in a step. Medians of "
        f"{arguments.slices} slices taken in turn.",
    ]
    found = {}
    for name in arguments.models:
        model, rows = name.split(":")
        cores = len(os.sched_getaffinity(0))
        if arguments.chunks:
            taking_turns = chunked(arguments.hosts, int(rows), cores, arguments.chunks)
        else:
            taking_turns = contenders(arguments.hosts, int(rows), cores)
        speeds = measure(taking_turns, model, arguments.slices, arguments.seconds)
        found[name] = speeds
        lines += ["", f"## {model}, {rows} rows a host", "", *table(speeds)]
        print("\n".join(lines[-len(speeds) - 4 :]), flush=True)
    RESULTS.mkdir(exist_ok=True)
    report = {"machine": where, "hosts": arguments.hosts, "samples_per_second": found}
    (RESULTS / f"{arguments.output}.json").write_text(json.dumps(report) + "\n")
    (RESULTS / f"{arguments.output}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
