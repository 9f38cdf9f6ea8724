"""Training on up to thousands of hosts, simulated from measurements of one host.

    python benchmarks/scaling.py [--check-only] [--busy] [--output NAME]

First the cost model (tensorbow/cli/plan/cost_model.py) is compared with 2 and 4 processes of
this machine that train together. Then iterations of up to 4,096 hosts are simulated. Their tasks
take as long as this machine's, with its variation, on networks given by latency and bandwidth; sums
cost as much as the software here. On a machine that others use (--busy) a task takes its CPU time.
Writes benchmarks/results/NAME.{json,md}.
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
from interleave import machine, told
from scaling_check import CHECKED, check, check_table, one_host

from tensorbow.cli.plan import cost_model, sum_costs, task_times
from tensorbow.cli.plan.cost_model import Cluster, Exchange, Host, Network, Ring, SumCosts, Task

RESULTS = pathlib.Path(__file__).parent / "results"
PROGRAMS = pathlib.Path(__file__).parent / "scaling_programs.py"
HOSTS = [2, 4, 16, 64, 256, 1024, 4096]
PERIODS = [1, 4, 16, 64]
NETWORKS = {
    "10 Gbit/s, 50 µs": Network(50e-6, 10e9 / 8),
    "100 Gbit/s, 5 µs": Network(5e-6, 100e9 / 8),
}
ITERATIONS = 256  # a multiple of all periods
SECONDS = 10  # a task is observed
ENOUGH = 20  # iterations that show their variation
# The rows of an iteration of a host.
TASKS = {
    "LeNet, 64 rows": ("lenet", 64),
    "ResNet-50, 8 rows": ("resnet50", 8),
    "25 M parameters, dense, 128 rows": ("dense", 128),
}


# ------------------------------------------------------------------------ simulation


def simulate_models(task: Task, cluster: Cluster, period: int, pace: np.ndarray) -> float:
    """Returns the seconds of an iteration under SMA, by cost_model.averaged_models(), on hosts of
    different speed.

    Args:
      pace: [iterations, hosts], the durations of tasks relative to `task`.
    """
    host, size, report = cluster.host, task.size_bytes, cluster.report_bytes
    arrays = 2 if host.learners > 1 else 5
    chunks = sum(map(cluster.sum_work, cost_model.in_chunks(size)))
    work = cluster.report_work / host.cores
    work_of_sum = chunks / host.cores + arrays * size / host.memory
    end = np.zeros(pace.shape[1])
    reported = summed = 0.0
    for i, factor in enumerate(pace):
        met = i % period == 0
        begin = end + factor * task.forward + work + (work_of_sum if met else 0)
        begin = np.maximum(begin, max(reported, summed if met else 0))
        end = begin + factor * (task.seconds - task.forward)
        reported = end.max() + cluster.sum_seconds(report)
        if (i + 1) % period == 0:
            summed = end.max() + cluster.sum_seconds(size)
    return float(end.max() / len(pace))


def simulate_gradients(task: Task, cluster: Cluster, pace: np.ndarray) -> float:
    """Returns the seconds under S-SGD: every host waits for the slowest in every iteration."""
    slowest = pace.max(1)
    seconds = [
        cost_model.averaged_gradients(task.scaled_to(factor * task.seconds), cluster).seconds
        for factor in slowest
    ]
    return float(np.mean(seconds))


def paces(iterations: Sequence[float], hosts: int, seed: int = 0) -> np.ndarray:
    """Draws durations of tasks relative to their median, from measured iterations."""
    relative = np.array(iterations) / np.median(iterations)
    return np.random.default_rng(seed).choice(relative, (ITERATIONS, hosts))


def simulated(
    task: Task, iterations: Sequence[float], host: Host, network: Network, costs: SumCosts
) -> dict[str, list[float]]:
    """Returns the seconds of an iteration for every number of HOSTS, by way of training.

    The ways ending in "equal" are of hosts whose tasks all take the median.
    """
    found: dict[str, list[float]] = {}
    for hosts in HOSTS:
        pace = paces(iterations, hosts)
        ours = Cluster(host, Exchange(hosts), network, costs)
        ring = Cluster(host, Ring(hosts), network, costs)
        grid = Cluster(host, cost_model.squarest(hosts), network, costs)
        seconds = {f"SMA, H = {h}": simulate_models(task, ours, h, pace) for h in PERIODS}
        seconds |= {f"SMA, H = {h}, ring": simulate_models(task, ring, h, pace) for h in PERIODS}
        seconds |= {
            f"SMA, H = {h}, hierarchy": simulate_models(task, grid, h, pace) for h in PERIODS
        }
        seconds["S-SGD"] = simulate_gradients(task, ours, pace)
        seconds["S-SGD, ring"] = simulate_gradients(task, ring, pace)
        seconds["S-SGD, hierarchy"] = simulate_gradients(task, grid, pace)
        even = np.ones_like(pace)
        seconds["SMA, H = 1, hierarchy, equal"] = simulate_models(task, grid, 1, even)
        seconds["S-SGD, hierarchy, equal"] = simulate_gradients(task, grid, even[:1])
        for name, value in seconds.items():
            found.setdefault(name, []).append(value)
    return found


# ---------------------------------------------------------------------------- report


def undisturbed(measured: task_times.Measured, cores: int) -> task_times.Measured:
    """Returns the measurement on cores that are all busy with it: its CPU time."""
    iterations = tuple(work / cores for work in measured.work)
    task = measured.task.scaled_to(float(np.median(iterations)))
    return dataclasses.replace(measured, task=task, iterations=iterations)


def measured_tasks(cores: Sequence[int], busy: bool) -> dict[str, task_times.Measured]:
    """Returns this machine's durations of tasks, with a learner on each core."""
    found = {}
    for name, (program, rows) in TASKS.items():
        ours = program == "lenet"
        job = task_times.Job(
            program if ours else "",
            rows,
            "" if ours else str(PROGRAMS),
            () if ours else (program, str(rows)),
            learners=len(cores),
            seconds=SECONDS,
        )
        found[name] = task_times.measure(job, cores)
        if busy:
            found[name] = undisturbed(found[name], len(cores))
        task = found[name].task
        print(f"{name}: {task.seconds:.4f} s, {task.size_bytes / 4e6:.2f} M parameters", flush=True)
    dense = found["25 M parameters, dense, 128 rows"]
    deep = Task(40 * dense.task.forward, dense.task.layers * 40, 40 * dense.task.rest)
    longer = tuple(40 * seconds for seconds in dense.iterations)
    found["1 B parameters, 40 of these one after the other"] = dataclasses.replace(
        dense, task=deep, iterations=longer
    )
    return found


def scaling_table(task: Task, seconds: dict[str, list[float]]) -> list[str]:
    """Returns Markdown: the speed of each host relative to a lone one."""
    shown = [name for name in seconds if not name.endswith("equal")]
    lines = [
        f"| | {' | '.join(f'{hosts:,}' for hosts in HOSTS)} |",
        "|---" * (len(HOSTS) + 1) + "|",
    ]
    for name in shown:
        shares = [
            f"{task.seconds / s:.0%}" if task.seconds / s >= 0.1 else f"{task.seconds / s:.1%}"
            for s in seconds[name]
        ]
        lines.append(f"| {name} | {' | '.join(shares)} |")
    return lines


def stragglers_table(found: dict[str, dict[str, list[float]]]) -> list[str]:
    """Returns Markdown: the seconds that tasks of different duration add to an iteration."""
    lines = [
        f"| | | {' | '.join(f'{hosts:,}' for hosts in HOSTS)} |",
        "|---" * (len(HOSTS) + 2) + "|",
    ]
    for name, seconds in found.items():
        for way in ("SMA, H = 1, hierarchy", "S-SGD, hierarchy"):
            added = [a / b - 1 for a, b in zip(seconds[way], seconds[f"{way}, equal"])]
            lines.append(f"| {name} | {way} | {' | '.join(f'{a:+.0%}' for a in added)} |")
    return lines


def told_costs(costs: SumCosts) -> str:
    return (
        f"A step of a sum takes {1e6 * costs.step:.0f} µs of software and "
        f"{1e9 * costs.byte:.2f} ms per MB that a host sends, of which it computes "
        f"{1e6 * costs.step_work:.0f} µs and {1e9 * costs.byte_work:.2f} ms. An iteration "
        f"loses {1e6 * costs.interruption:.0f} µs when sums go on beside it."
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check-only", action="store_true")
    parser.add_argument("--busy", action="store_true", help="others use this machine")
    parser.add_argument("--slices", type=int, default=7)
    parser.add_argument("--output", default="scaling")
    arguments = parser.parse_args(argv)
    cores = sorted(os.sched_getaffinity(0))
    where = machine()
    half = max(1, len(cores) // 2)
    costs = sum_costs.measure([cores[:half], cores[-half:]])
    print(told_costs(costs), flush=True)
    singles = {(model, rows): one_host(model, rows) for model, rows in CHECKED}
    checked = {}
    for hosts in (2, 4):
        for model, rows in CHECKED:
            name = f"{model}, {rows} rows, {hosts} hosts"
            one = singles[model, rows]
            checked[name] = check(model, rows, hosts, arguments.slices, one, costs)
            print("\n".join(check_table({name: checked[name]}, busy=False)[2:]), flush=True)
    if arguments.check_only:
        return
    tasks = measured_tasks(cores, arguments.busy)
    simulated_by: dict[str, dict[str, dict[str, list[float]]]] = {}
    for name, measured in tasks.items():
        host = Host(len(cores), len(cores), measured.memory)
        simulated_by[name] = {
            network: simulated(measured.task, measured.iterations, host, NETWORKS[network], costs)
            for network in NETWORKS
        }
    report = {
        "machine": where,
        "busy": arguments.busy,
        "costs": dataclasses.asdict(costs),
        "check": checked,
        "tasks": {name: dataclasses.asdict(measured) for name, measured in tasks.items()},
        "hosts": HOSTS,
        "seconds": simulated_by,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{arguments.output}.json").write_text(json.dumps(report) + "\n")
    text = "\n".join(written(report, costs, tasks)) + "\n"
    (RESULTS / f"{arguments.output}.md").write_text(text)


def written(
    report: dict[str, Any], costs: SumCosts, tasks: dict[str, task_times.Measured]
) -> list[str]:
    """Returns the report, in Markdown, by line."""
    in_work = " (in CPU time)" if report["busy"] else ""
    lines = [
        "# Scaling to many hosts",
        "",
        f"{told(report['machine'])} {told_costs(costs)}",
        "",
        "## The cost model against processes of this machine",
        "",
        "Milliseconds of an iteration of hosts with one learner each that were measured beside the "
        'costs above, and as predicted from those of hosts that do not average ("from one host": '
        "from a host that has the machine to itself), and "
        "CPU time of one of them; 2 have a core each, 4 share 2. Medians of slices taken in turn."
        + (
            " Other programs used the machine, for the costs above, too: CPU time only."
            if report["busy"]
            else ""
        ),
        "",
        *check_table(report["check"], report["busy"]),
        "",
        "## Simulated",
        "",
        "The speed of a host relative to one that is alone, by number of hosts. A host is this "
        "machine, with a learner on each core. Tasks take what they take here, and differ from "
        f"iteration to iteration and host to host as they do here{in_work}; sums cost "
        "the software what they cost here, and the network the latency and bandwidth given. "
        "TensorBow's sums are exchanges between all hosts; the ring is TensorFlow's, and the "
        "hierarchy (exchanges in groups of hosts, and across groups) what TensorBow could have. "
        "Whatever H, every iteration is reported to all.",
    ]
    for name, measured in tasks.items():
        task = measured.task
        lines += [
            "",
            f"### {name}: {1e3 * task.seconds:,.1f} ms, {task.size_bytes / 1e6:,.1f} MB",
            "",
            f"{len(measured.iterations)} iterations were watched.",
        ]
        for network, seconds in report["seconds"][name].items():
            lines += ["", f"{network}:", "", *scaling_table(task, seconds)]
    network = next(iter(NETWORKS))
    lines += [
        "",
        "## What tasks that are not equally long cost",
        "",
        f"The same simulation ({network}), relative to one in which all tasks take the median. "
        "Under SMA a host that is late delays the others only by what exceeds their forward pass. "
        f"Without tasks of which fewer than {ENOUGH} iterations were watched.",
        "",
        *stragglers_table(
            {
                name: by[network]
                for name, by in report["seconds"].items()
                if len(tasks[name].iterations) >= ENOUGH
            }
        ),
    ]
    return lines


if __name__ == "__main__":
    main()
