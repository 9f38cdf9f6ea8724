"""Hosts of different speed on sparse data: seconds until a precision is reached.

    python benchmarks/adaptive_hosts.py --data FOLDER

Two hosts are processes on this machine, host h pinned to core h, with one learner each; host 1's
core is shared with processes that spin, so that it is as slow as said. They train the model of
benchmarks/adaptive.py on Bibtex. Each host trains for a time on a stream of its own of all rows.
It is shuffled again in every epoch, and the same for every contender. Meanwhile host 0 keeps
copies of the model that is read; their precision is looked at afterwards, so that nobody waits
for an evaluation. Contenders take turns, seed by seed. Writes benchmarks/results/NAME.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

RESULTS = pathlib.Path(__file__).parent / "results"
BATCH = 64
HOSTS = 2
LIMIT_SECONDS = 120  # for a host to start and to end, in addition to its training
CONTENDERS = {
    "SSGD": ("SSGD", {}),
    "SMA": ("SMA", {}),
    "EASGD": ("EASGD", {}),
    "AdaptiveSGD": ("AdaptiveSGD", {"momentum": 0.0}),
    "AdaptiveSGD, momentum 0.9": ("AdaptiveSGD", {}),
}


# ------------------------------------------------------------------------ a host's process


def _wait_for(path: pathlib.Path) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody has made {path}")
        time.sleep(0.001)


def host(settings: dict[str, Any]) -> None:
    """Runs a host; host 0 writes its copies of the model, the others their number of rows."""
    rank: int = settings["rank"]
    folder = pathlib.Path(settings["folder"])
    os.sched_setaffinity(0, {settings["core"]})
    import numpy as np
    import tensorflow as tf
    from adaptive import DROPOUT, Program, Rows

    import tensorbow

    tf1 = tf.compat.v1
    data = pathlib.Path(settings["data"])
    train = Rows(data / "bibtex_train.libsvm.gz")
    program = Program(settings["rate"], settings["seed"])
    kind, options = CONTENDERS[settings["contender"]]
    adapts = kind == "AdaptiveSGD"
    if adapts:
        options = options | {"b_max": BATCH, "mega_batch": settings["mega_batch"]}
    chosen = tensorbow.Options(
        learners_per_device=1,
        synchroniser=getattr(tensorbow, kind)(**options),
        batch_size=None if adapts else BATCH,
        shard=[program.x, program.y],
        cluster=tensorbow.Cluster(settings["addresses"], rank),
        pin_threads=False,
    )
    rng = np.random.default_rng([settings["seed"], rank])
    rows = settings["run"]
    stream = []
    for _ in range(settings["epochs"]):
        order = rng.permutation(len(train))
        stream += [train.take(order[k : k + rows]) for k in range(0, len(order) - rows + 1, rows)]
    with program.graph.as_default():
        variables = tf1.trainable_variables()
    copies, trained = [], 0
    with tensorbow.TensorBowSession(graph=program.graph, options=chosen) as session:

        def step(k: int) -> None:
            x, y = stream[k % len(stream)]
            session.run(program.train, {program.x: x, program.y: y, program.dropout: DROPOUT})

        session.run(program.init)
        step(0)  # compiles everything
        session.run(program.init)
        session.run(variables)
        (folder / f"ready{rank}").touch()
        _wait_for(folder / "go")
        begin = time.perf_counter()
        while not (folder / "stop").exists():
            step(trained)
            trained += 1
            if rank > 0:
                continue
            seconds = time.perf_counter() - begin
            copies.append((seconds, session.run(variables)))
            if seconds > settings["seconds"]:
                (folder / "stop").touch()
        seconds = time.perf_counter() - begin
        records = session.adaptive
    found: dict[str, Any] = {"samples_per_second": trained * rows / seconds}
    if rank == 0:
        found |= _precisions(program, Rows(data / "bibtex_test.libsvm.gz"), copies)
        found["rows"] = [list(record.rows) for record in records[-1:]]
        found["sizes"] = [list(record.sizes) for record in records[-1:]]
    (folder / f"found{rank}").write_text(json.dumps(found))


def _precisions(program: Any, test: Any, copies: list[Any]) -> dict[str, Any]:
    """Returns seconds and precision@1 of every copy of the model."""
    import tensorflow as tf
    from adaptive import precision

    with program.graph.as_default():
        variables = tf.compat.v1.trainable_variables()
    seconds, precisions = [], []
    last: list[Any] | None = None
    with tf.compat.v1.Session(graph=program.graph) as session:
        for at, values in copies:
            seconds.append(at)
            if last is not None and all((a == b).all() for a, b in zip(values, last)):
                precisions.append(precisions[-1])  # nothing has been merged in between
                continue
            last = values
            for variable, value in zip(variables, values):
                variable.load(value, session)
            precisions.append(precision(session, program, test))
    return {"seconds": seconds, "precisions": precisions}


# ------------------------------------------------------------------------------ measuring


def _wait_for_stop(folder: pathlib.Path, processes: list[subprocess.Popen[bytes]]) -> None:
    """Waits until host 0 has trained for long enough, or a host has ended."""
    while not (folder / "stop").exists() and all(p.poll() is None for p in processes):
        time.sleep(0.01)


def run_once(
    contender: str, rate: float, seed: int, slowed: int, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Trains both hosts for a time; returns their results."""
    from adaptive import slowed as slowing

    from tensorbow.cli.launch import free_addresses

    cores = sorted(os.sched_getaffinity(0))
    addresses = free_addresses(HOSTS)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        processes = []
        try:
            for rank in range(HOSTS):
                settings = {
                    "rank": rank,
                    "core": cores[rank],
                    "folder": name,
                    "addresses": addresses,
                    "contender": contender,
                    "rate": rate,
                    "seed": seed,
                    "data": str(arguments.data),
                    "seconds": arguments.seconds * max(1, slowed / 2),
                    "mega_batch": arguments.mega_batch,
                    "run": arguments.run,
                    "epochs": arguments.epochs,
                }
                with open(folder / f"log{rank}", "w") as log:
                    processes.append(
                        subprocess.Popen(
                            [sys.executable, __file__, "--host", json.dumps(settings)],
                            stdout=log,
                            stderr=log,
                        )
                    )
            for rank, process in enumerate(processes):
                while process.poll() is None and not (folder / f"ready{rank}").exists():
                    time.sleep(0.01)  # a host ends by itself if others are missing
            with slowing(slowed, cores[1]):
                (folder / "go").touch()
                _wait_for_stop(folder, processes)
            for rank, process in enumerate(processes):
                if process.wait(LIMIT_SECONDS) != 0:
                    raise RuntimeError((folder / f"log{rank}").read_text()[-3000:])
            found = [json.loads((folder / f"found{r}").read_text()) for r in range(HOSTS)]
        finally:
            for process in processes:
                process.kill()
                process.wait()
    reached = [
        at
        for at, precision in zip(found[0]["seconds"], found[0]["precisions"])
        if precision >= arguments.goal
    ]
    return {
        "contender": contender,
        "slowed": slowed,
        "seed": seed,
        "rate": rate,
        "seconds": reached[0] if reached else None,
        "best": max(found[0]["precisions"]),
        "samples_per_second": sum(of["samples_per_second"] for of in found),
        "rows": found[0]["rows"],
        "sizes": found[0]["sizes"],
    }


def tuned(contender: str, arguments: argparse.Namespace) -> float:
    """Returns the rate that reaches the goal first on equal hosts, by an extra seed; if none does,
    the rate of the best precision."""
    runs = [run_once(contender, rate, 1000, 1, arguments) for rate in arguments.rates]
    runs.sort(key=lambda run: (run["seconds"] or float("inf"), -run["best"]))
    return float(runs[0]["rate"])


def cells(runs: list[dict[str, Any]]) -> tuple[str, str]:
    """Returns cells of the table: samples/s, and seconds if all seeds have reached the goal."""
    from interleave import spread

    median, low, high = spread([run["samples_per_second"] for run in runs])
    speed = f"{median:,.0f} ({low:,.0f}–{high:,.0f})"
    reached = [run["seconds"] for run in runs if run["seconds"] is not None]
    if len(reached) < len(runs):
        return speed, f"not in {len(runs) - len(reached)} of {len(runs)}"
    median, low, high = spread(reached)
    return speed, f"{median:.2f} ({low:.2f}–{high:.2f})"


def written(where: Any, report: dict[str, Any], arguments: argparse.Namespace) -> list[str]:
    from interleave import told

    conditions = [f"{times}×" for times in arguments.slowed]
    lines = [
        "# Hosts of different speed",
        "",
        told(where),
        f"Two hosts, a core and a learner each; host 1's core is as much slower as said. Bibtex, "
        f"batches of {BATCH} rows, Adam, runs of {arguments.run} rows on each host, mega-batches "
        f"of {arguments.mega_batch:,} rows of both; for each the best of the rates "
        f"{', '.join(map(str, arguments.rates))} on equal hosts. Medians of {arguments.seeds} "
        "seeds with quartiles. Rows: what each host has trained on in the last mega-batch.",
    ]
    for title, part in (
        ("Samples/s of both hosts", 0),
        (f"Seconds until precision@1 is {arguments.goal:.0%} on the test set", 1),
    ):
        lines += ["", f"## {title}", "", f"| contender | rate | {' | '.join(conditions)} |"]
        lines.append("|---|---|" + "---|" * len(conditions))
        for name, rate in report["rates"].items():
            row = []
            for times in arguments.slowed:
                runs = [r for r in report["runs"] if (r["contender"], r["slowed"]) == (name, times)]
                row.append(cells(runs)[part])
            lines.append(f"| {name} | {rate:g} | {' | '.join(row)} |")
    lines += ["", "## Rows of the last mega-batch, by host", ""]
    for run in report["runs"]:
        if run["rows"] and run["seed"] == 0:
            rows = " and ".join(map(str, run["rows"][0]))
            sizes = " and ".join(map(str, run["sizes"][0]))
            lines.append(f"- {run['contender']}, {run['slowed']}×: {rows}; batches of {sizes}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--data", type=pathlib.Path, help="of bibtex_*.libsvm.gz")
    parser.add_argument("--slowed", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rates", type=float, nargs="+", default=[0.002, 0.005, 0.01, 0.02])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--goal", type=float, default=0.6)
    parser.add_argument("--seconds", type=float, default=6, help="of training; more if slowed")
    parser.add_argument("--mega-batch", type=int, default=2440)
    parser.add_argument("--run", type=int, default=320, help="rows of a run of a host")
    parser.add_argument("--epochs", type=int, default=4, help="of the stream, which is repeated")
    parser.add_argument("--only", nargs="+", default=list(CONTENDERS), help="contenders")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder")
    parser.add_argument("--output", default="adaptive_hosts", help="name of the results")
    arguments = parser.parse_args()
    if arguments.host is not None:
        host(arguments.host)
        return
    if arguments.data is None or len(os.sched_getaffinity(0)) < HOSTS:
        parser.error(f"wants --data, and {HOSTS} cores")
    from interleave import machine

    where = machine()
    report: dict[str, Any] = {"machine": where, "runs": []}
    report["rates"] = {name: tuned(name, arguments) for name in arguments.only}
    for seed in range(arguments.seeds):
        for times in arguments.slowed:
            for name in arguments.only:
                run = run_once(name, report["rates"][name], seed, times, arguments)
                report["runs"].append(run)
                print(run, flush=True)
    lines = written(where, report, arguments)
    arguments.results.mkdir(exist_ok=True)
    (arguments.results / f"{arguments.output}.json").write_text(json.dumps(report, indent=1))
    (arguments.results / f"{arguments.output}.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
