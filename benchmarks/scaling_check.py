"""The cost model of several hosts against processes of this machine."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from contenders import WITH_ONEDNN, Contender
from hosts import Hosts
from interleave import in_turns

from tensorbow.cli.plan import cost_model, task_times
from tensorbow.cli.plan.cost_model import (
    Cluster,
    Exchange,
    Host,
    Network,
    Prediction,
    SumCosts,
    Task,
)

CHECKED = [("lenet", 32), ("resnet20", 32), ("logistic", 32)]
CHECK_PERIOD = 8


class WatchedHosts(Hosts):
    """Hosts whose CPU time is recorded, too."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.work: list[float] = []  # of one iteration of one host, by slice

    def seconds(self, steps: int) -> float:
        for host in self._hosts:
            host.tell(str(steps))
        self.work.append(sum(host.hear("work") for host in self._hosts) / len(self._hosts) / steps)
        return max(host.hear("seconds") for host in self._hosts)


def ways_to_check() -> dict[str, dict[str, Any]]:
    """Returns settings of host_contenders.host_session by their names."""
    return {
        "alone": {"averaging": False},
        "SMA": {"averaging": True},
        f"SMA, H = {CHECK_PERIOD}": {"averaging": True, "period": CHECK_PERIOD},
        "S-SGD": {"averaging": True, "synchroniser": "SSGD"},
    }


def predicted(task: Task, cluster: Cluster) -> dict[str, Prediction]:
    """Returns the same ways in the model."""
    return {
        "alone": Prediction(task.seconds, 0.0, 0.0),
        "SMA": cost_model.averaged_models(task, cluster),
        f"SMA, H = {CHECK_PERIOD}": cost_model.averaged_models(task, cluster, CHECK_PERIOD),
        "S-SGD": cost_model.averaged_gradients(task, cluster),
    }


def one_host(model: str, rows: int) -> task_times.Measured:
    """Makes a host with one learner on one core, while the others are idle."""
    cores = sorted(os.sched_getaffinity(0))
    return task_times.measure(task_times.Job(model, rows, "", (), 1, seconds=4), cores[:1])


def check(
    model: str, rows: int, hosts: int, slices: int, one: task_times.Measured, costs: SumCosts
) -> dict[str, Any]:
    """Returns seconds and CPU seconds of an iteration of a host, by way of training: measured, and
    predicted from hosts that do not average and from `one` host on an idle machine."""
    running = {}
    for name, way in ways_to_check().items():
        settings = {"learners": 1} | way
        contender = Contender(name, "host_session", hosts * rows, settings, environment=WITH_ONEDNN)
        running[name] = WatchedHosts(contender, model, hosts)
    for process in running.values():
        process.wait_until_ready()
        process.calibrate(0.7)
        process.work.clear()
    speeds = in_turns(running, slices)
    for process in running.values():
        process.end()
    measured = {name: hosts * rows / float(np.median(values)) for name, values in speeds.items()}
    work = {name: float(np.median(process.work)) for name, process in running.items()}
    host = Host(1, min(1.0, len(os.sched_getaffinity(0)) / hosts), one.memory)
    cluster = Cluster(host, Exchange(hosts), Network(), costs)
    by_hosts = predicted(one.task.scaled_to(measured["alone"]), cluster)
    by_one = predicted(one.task.scaled_to(one.task.seconds / host.cores), cluster)
    return {
        "samples_per_second": speeds,
        "measured": measured,
        "measured_work": work,
        "predicted": {name: p.seconds for name, p in by_hosts.items()},
        "predicted_from_one": {name: p.seconds for name, p in by_one.items()},
        "predicted_work": {
            name: work["alone"] + p.work * host.cores for name, p in by_hosts.items()
        },
    }


def off(value: float, true: float) -> str:
    return f"{value / true - 1:+.0%}"


def check_table(found: dict[str, dict[str, Any]], busy: bool) -> list[str]:
    """Returns Markdown: milliseconds of an iteration, and errors of predictions; CPU time only if
    others have used the machine."""
    lines = ["| | | CPU time | predicted | |", "|---|---|---|---|---|"]
    if not busy:
        lines = [
            "| | | CPU time | predicted | | time | predicted | | from one host | |",
            "|---" * 10 + "|",
        ]
    for name, of in found.items():
        for way, seconds in of["measured"].items():
            columns = [(of["measured_work"], of["predicted_work"])]
            if not busy:
                columns.append((of["measured"], of["predicted"]))
            cells = [name, way]
            for true, value in columns:
                cells.append(f"{1e3 * true[way]:.2f}")
                # The others are predicted from "alone".
                same = way == "alone"
                cells += (
                    ["", ""] if same else [f"{1e3 * value[way]:.2f}", off(value[way], true[way])]
                )
            if not busy:
                value = of["predicted_from_one"][way]
                cells += [f"{1e3 * value:.2f}", off(value, seconds)]
            lines.append(f"| {' | '.join(cells)} |")
    return lines
