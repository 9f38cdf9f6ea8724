"""`tensorbow plan`: predicts the speed on several hosts from measurements of one."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import sys
from collections.abc import Sequence
from typing import Any

from tensorbow._runtime.messages import count
from tensorbow.cli import outputs
from tensorbow.cli.arguments import add_program
from tensorbow.cli.plan import cost_model
from tensorbow.cli.plan.cost_model import (
    Cluster,
    Exchange,
    Host,
    Network,
    Prediction,
    SumCosts,
    Task,
)

_SHOWN_LAYERS = 5
_UNDISTURBED = 0.7  # of the time, that learners compute


def add_parser(commands: Any) -> None:
    """Adds the command and its arguments."""
    plan = commands.add_parser(
        "plan", help="predict how fast a program trains on several hosts, from what one measures"
    )
    plan.set_defaults(parser=plan)
    add_program(plan)
    plan.add_argument(
        "--hosts",
        type=_numbers,
        default=[2, 4, 8, 16],
        help="how many, as in 2,4,8; default %(default)s",
    )
    plan.add_argument("--cores", type=int, help="of each host; default those of this machine")
    plan.add_argument("--learners", type=int, help="of each host; default one per core")
    plan.add_argument(
        "--batch-size", type=int, default=32, help="with --model: rows of an iteration of a host"
    )
    plan.add_argument(
        "--sync-period",
        type=_numbers,
        default=[1, 16],
        help="iterations from one average of the hosts to the next (Cluster(sync_period=...)), "
        "as in 1,16; default %(default)s",
    )
    plan.add_argument(
        "--latency-us",
        type=float,
        help="of a message from one host to another; default that of processes of this machine",
    )
    plan.add_argument(
        "--bandwidth-gbit",
        type=float,
        help="of a host, in each direction; default what processes of this machine reach",
    )
    plan.add_argument("--seconds", type=float, default=5, help="how long the program is watched")
    plan.add_argument("--json", type=pathlib.Path, help="save all numbers")


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"wanted numbers from 1 as in 2,4,8, got {text!r}")
    return numbers


def ways(task: Task, cluster: Cluster, periods: Sequence[int]) -> dict[str, Prediction]:
    """Returns predictions for the ways to train on these hosts, by name."""
    found = {}
    for period in periods:
        name = "SMA" if period == 1 else f"SMA, H = {period}"
        found[name] = cost_model.averaged_models(task, cluster, period)
    found["S-SGD"] = cost_model.averaged_gradients(task, cluster)
    found["sums after back-propagation"] = cost_model.plain_data_parallel(task, cluster)
    return found


def table(found: dict[int, dict[str, Prediction]], task: Task, rows: int) -> str:
    """Returns predictions by number of hosts and way, as aligned text."""
    cells = [["hosts", "", "ms an iteration", "samples/s", "waiting", "of hosts alone"]]
    for hosts, by_way in found.items():
        for name, predicted in by_way.items():
            cells.append(
                [
                    str(hosts),
                    name,
                    f"{1e3 * predicted.seconds:.2f}",
                    f"{hosts * rows / predicted.seconds:,.0f}",
                    f"{predicted.waiting / predicted.seconds:.0%}",
                    f"{task.seconds / predicted.seconds:.0%}",
                ]
            )
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 1 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        )
        for row in cells
    )


def told(task: Task, rows: int, host: Host) -> str:
    """Returns the measurements of one host as text."""
    lines = [
        f"One host, {count(host.learners, 'learner')} on {count(int(host.cores), 'core')}: "
        f"{1e3 * task.seconds:.2f} ms an iteration of {rows} rows, {rows / task.seconds:,.0f} "
        f"samples/s, {task.size_bytes / 1e6:.2f} MB of variables.",
        f"Forward pass {1e3 * task.forward:.2f} ms, then the updates, each with the layers of "
        "back-propagation before it:",
    ]
    largest = sorted(task.layers, key=lambda a: -a.seconds)[:_SHOWN_LAYERS]
    lines += [
        f"  {1e3 * layer.seconds:8.2f} ms  {layer.size_bytes / 1e6:8.2f} MB  {layer.name}"
        for layer in task.layers
        if layer in largest
    ]
    if len(task.layers) > len(largest):
        others = [a for a in task.layers if a not in largest]
        lines.append(
            f"  {1e3 * sum(a.seconds for a in others):8.2f} ms  "
            f"{sum(a.size_bytes for a in others) / 1e6:8.2f} MB  {len(others)} others"
        )
    return "\n".join(lines)


def disturbed(iterations: Sequence[float], work: Sequence[float], cores: float) -> str:
    """Returns a warning if other programs used the cores; else ""."""
    share = statistics.median(work) / cores / statistics.median(iterations)
    if share >= _UNDISTURBED:
        return ""
    return (
        f"Its cores computed for it in {share:.0%} of the time only: if other programs use this "
        "machine, iterations are as long as with them."
    )


def told_network(network: Network, costs: SumCosts) -> str:
    """Returns the network between hosts as text."""
    step, byte = network.latency + costs.step, max(1 / network.bandwidth, costs.byte)
    return (
        f"Sums: {1e6 * step:.0f} us a step and {1e9 * byte:.2f} ms per MB sent, of which hosts "
        f"compute {1e6 * costs.step_work:.0f} us and {1e9 * costs.byte_work:.2f} ms. An iteration "
        f"loses {1e6 * costs.interruption:.0f} us when sums go on beside it."
    )


def _shares(cores: Sequence[int], count: int) -> list[list[int]]:
    """Returns the cores of two hosts, different ones if there are enough."""
    first = list(cores[:count])
    return [first, list(cores[count : 2 * count]) if 2 * count <= len(cores) else first]


def check(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Refuses what could not work later."""
    cores = len(os.sched_getaffinity(0))
    for name in ("cores", "learners", "batch_size", "seconds", "bandwidth_gbit"):
        value = getattr(arguments, name)
        if value is not None and value <= 0:
            parser.error(f"--{name.replace('_', '-')} must be greater than 0, got {value}")
    if arguments.latency_us is not None and arguments.latency_us < 0:
        parser.error(f"--latency-us must be at least 0, got {arguments.latency_us}")
    if arguments.cores is not None and arguments.cores > cores:
        parser.error(f"--cores must be at most {cores}, as this machine has, got {arguments.cores}")
    if arguments.script is not None and not arguments.script.is_file():
        parser.error(f"{arguments.script}: there is no such file")
    outputs.check(parser, arguments, "json")


def run(arguments: argparse.Namespace) -> int:
    """Runs `tensorbow plan`; returns the exit status."""
    everything = sorted(os.sched_getaffinity(0))
    from tensorbow.cli.plan import sum_costs, task_times

    cores = arguments.cores or len(everything)
    job = task_times.Job(
        model=arguments.model or "",
        rows=arguments.batch_size,
        script="" if arguments.model else str(arguments.script),
        arguments=tuple(arguments.arguments),
        learners=arguments.learners or cores,
        seconds=arguments.seconds,
    )
    what = job.model or pathlib.Path(job.script).name
    try:
        _say(f"training {what} on this host, which takes some seconds more than {job.seconds:g}")
        measured = task_times.measure(job, everything[:cores])
        _say("adding up numbers of two processes")
        costs = sum_costs.measure(_shares(everything, cores))
    except RuntimeError as error:
        print(error)
        return 1
    network = Network(
        latency=(arguments.latency_us or 0) / 1e6,
        bandwidth=(arguments.bandwidth_gbit or float("inf")) * 1e9 / 8,
    )
    task, host = measured.task, Host(job.learners, cores, measured.memory)
    found = {
        hosts: ways(task, Cluster(host, Exchange(hosts), network, costs), arguments.sync_period)
        for hosts in arguments.hosts
    }
    print(told(task, measured.rows, host))
    warning = disturbed(measured.iterations, measured.work, cores)
    if warning:
        print(warning)
    print(told_network(network, costs))
    print()
    print(table(found, task, measured.rows))
    saved = outputs.write(
        "numbers",
        arguments.json,
        lambda path: _save(path, measured, host, network, costs, found),
    )
    return int(not saved)


def _say(text: str) -> None:
    """Shows that the command is at work."""
    print(f"tensorbow plan: {text}", file=sys.stderr, flush=True)


def _save(
    path: pathlib.Path,
    measured: Any,
    host: Host,
    network: Network,
    costs: SumCosts,
    found: dict[int, dict[str, Prediction]],
) -> None:
    predictions = {
        str(hosts): {name: dataclasses.asdict(way) for name, way in by_way.items()}
        for hosts, by_way in found.items()
    }
    # JSON has no infinity.
    bandwidth = None if network.bandwidth == float("inf") else network.bandwidth
    numbers = {
        "measured": dataclasses.asdict(measured),
        "host": dataclasses.asdict(host),
        "network": {"latency": network.latency, "bandwidth": bandwidth},
        "sums": dataclasses.asdict(costs),
        "predictions": predictions,
    }
    path.write_text(json.dumps(numbers, indent=1) + "\n")
