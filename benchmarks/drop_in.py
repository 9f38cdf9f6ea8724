"""The loss of programs that only swap their session: stock sessions against TensorBow.

    python benchmarks/drop_in.py [--data ../shared/data] [--only resnet20 …] [--quick]
    python benchmarks/drop_in.py --programs

Six programs, each with gradient descent, momentum and Adam, keep their learning rate and the rows
they feed. Several learners are compared with stock TensorFlow over three seeds: by the training
loss on held-out rows after 30, 100 and 300 runs. A seed gives every contender the same weights and
the same rows in the same order. TensorBow counts as equal if the mean of its seeds exceeds the
worst seed of stock by at most a hundredth, at every point.

Results are merged into benchmarks/results/NAME.json, program by program, and NAME.md is written
from the file. `--programs` compares those of tests/programs that train on several learners, by the
metric of each, with more learners than docs/compatibility.md does.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
from interleave import machine
from ways import DEFAULT, SMA, STOCK, Way, session

RESULTS = pathlib.Path(__file__).parent / "results"
ROWS = 32
POINTS = [30, 100, 300]
TOLERANCE = 0.01  # relative to stock's worst seed
QUICK = {"programs": ["mlp", "embedding"], "seeds": 1, "points": [5, 10, 30]}

Losses = list[list[float]]  # by seed, then by point


def name_of(way: Way, learners: int) -> str:
    """Returns the name in the report."""
    if way == STOCK:
        return way.name
    return f"{learners} learners" + ("" if way == DEFAULT else f", {way.name}")


def contenders(learners: Sequence[int]) -> list[tuple[Way, int]]:
    """Returns stock, the default, and averaged models."""
    return [(STOCK, 1), *itertools.product([DEFAULT, SMA], learners)]


def losses(
    program: Any, data: Any, optimiser: str, seed: int, way: Way, learners: int, points: list[int]
) -> tuple[list[float], int]:
    """Returns the loss on the held-out rows, by the central model, after each of these runs.

    Returns:
      the losses, and the number of learners that took part: 1 if the run cannot be divided.
    """
    from accuracy_runs import batches
    from drop_in_programs import build

    training, held_out = data
    built = build(program, optimiser, seed)
    found = []
    order = batches(ROWS, len(training[0]), seed)
    with session(built.graph, **way.settings(learners)) as trained:
        trained.run(built.init)
        for step in range(1, points[-1] + 1):
            index = next(order)
            trained.run(built.train_op, dict(zip(built.inputs, (a[index] for a in training))))
            if step in points:
                feeds = dict(zip(built.inputs, held_out))
                found.append(float(trained.run(built.evaluated_loss, feeds)))
        took_part = 1 if way == STOCK else round(trained.learning_tasks / trained.iterations)
    return found, took_part


def within(stock: Losses, ours: Losses) -> list[bool]:
    """Returns whether the mean of our seeds is no worse than stock's worst seed, point by point."""
    worst, mean = np.max(stock, axis=0), np.mean(ours, axis=0)
    finite = np.isfinite(worst) & np.isfinite(mean)
    return (finite & (mean <= worst + TOLERANCE * np.abs(worst))).tolist()


def verdict(stock: Losses, ours: Losses, points: Sequence[int]) -> str:
    """Returns "equal", or by how much a point is worse than stock's mean."""
    means = np.mean(stock, axis=0), np.mean(ours, axis=0)
    worse = [
        f"{(mine - theirs) / abs(theirs):+.0%} at {point}"
        for good, point, theirs, mine in zip(within(stock, ours), points, *means)
        if not good
    ]
    return ("worse: " + ", ".join(worse)) if worse else "within"


def _means(values: Losses) -> str:
    return " · ".join(f"{value:.4g}" for value in np.mean(values, axis=0))


def _spreads(values: Losses) -> str:
    ends = zip(np.mean(values, axis=0), np.min(values, axis=0), np.max(values, axis=0))
    return " · ".join(f"{mean:.4g} ({low:.4g}–{high:.4g})" for mean, low, high in ends)


def verdicts(
    row: dict[str, Any], way: Way, mine: dict[int, Losses | None], points: Sequence[int]
) -> list[str]:
    """Returns verdicts by number of learners, with a remark if fewer took part."""
    found = []
    for learners, values in mine.items():
        if not values:
            continue
        text = f"{learners}: {verdict(row['loss'][STOCK.name], values, points)}"
        took_part = row["took_part"][name_of(way, learners)]
        found.append(text + (f" (by {took_part} only)" if took_part < learners else ""))
    return found


def table(rows: dict[str, Any], points: Sequence[int], learners: Sequence[int]) -> list[str]:
    """Returns Markdown: a line for each program, optimiser and synchroniser."""
    header = ["program", "optimiser", "rate", "synchroniser", "stock: mean (seeds)"]
    header += [f"{n} learners" for n in learners] + ["verdict"]
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    for row in rows.values():
        stock = row["loss"][STOCK.name]
        for way in (DEFAULT, SMA):
            mine = {n: row["loss"].get(name_of(way, n)) for n in learners}
            if not any(mine.values()):
                continue
            cells = [row["program"], row["optimiser"], f"{row['rate']:g}"]
            cells += ["default" if way == DEFAULT else f"`{way.name}()`", _spreads(stock)]
            cells += [_means(values) if values else "—" for values in mine.values()]
            cells.append("; ".join(verdicts(row, way, mine, points)))
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def summary(rows: dict[str, Any]) -> str:
    """Returns how many of the comparisons under default options are within stock's seeds."""
    found = [
        all(within(row["loss"][STOCK.name], values))
        for row in rows.values()
        for name, values in row["loss"].items()
        if name != STOCK.name and "," not in name
    ]
    alone = sum(
        1
        for row in rows.values()
        for name, took_part in row["took_part"].items()
        if name != STOCK.name and "," not in name and took_part < int(name.split()[0])
    )
    text = f"Default options: {sum(found)} of {len(found)} within stock's seeds at every point"
    return text + (f"; in {alone} of them not all learners took part." if alone else ".")


def document(report: dict[str, Any]) -> list[str]:
    """Returns the Markdown file of a report."""
    where, points = report["machine"], report["points"]
    return [
        "# The drop-in property",
        "",
        f"{where['cpu']}, {where['cores']} cores; TensorFlow {where['tensorflow']}, TensorBow "
        f"{where['tensorbow']}, Python {where['python']}; {where['date']}.",
        f"Programs keep their learning rate and feed {report['rows_per_run']} rows to a run, which "
        "the learners divide. Numbers are the training loss on held-out rows, by the central "
        f"model, after {' · '.join(map(str, points))} runs: means over {report['seeds']} seeds "
        "and, of stock, the best and the worst seed. *Within*: the mean is no worse than stock's "
        f"worst seed by more than {report['tolerance']:.0%}; otherwise the percentage is the "
        "distance to stock's mean. Batch normalisation uses the statistics of the held-out rows.",
        "",
        summary(report["rows"]),
        "",
        *table(report["rows"], points, report["learners"]),
    ]


def merged(path: pathlib.Path, header: dict[str, Any]) -> dict[str, Any]:
    """Returns the report in `path` with a new header, or a new one.

    Raises:
      ValueError: if its rows were made in another way.
    """
    rows = {}
    if path.exists():
        before = json.loads(path.read_text())
        for key in ("points", "seeds", "learners", "rows_per_run", "tolerance"):
            if before[key] != header[key]:
                raise ValueError(
                    f"{path} has {key} {before[key]}, these are {header[key]}; choose another "
                    "--output or remove the file"
                )
        rows = before["rows"]
    return {**header, "rows": rows}


def write(path: pathlib.Path, report: dict[str, Any], lines: Sequence[str]) -> None:
    """Writes JSON, and Markdown beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
    path.with_suffix(".md").write_text("\n".join(lines) + "\n")


def compare_own(arguments: argparse.Namespace, header: dict[str, Any]) -> None:
    """Trains the six programs, or the named ones."""
    from drop_in_programs import PROGRAMS

    path = arguments.results / f"{arguments.output}.json"
    report = merged(path, header)
    for name in arguments.only or PROGRAMS:
        program = PROGRAMS[name]
        data = program.data(arguments.data)
        for optimiser in arguments.optimiser:
            row: dict[str, Any] = {
                "program": name,
                "optimiser": optimiser,
                "rate": program.rates[optimiser],
                "data": str(arguments.data),
                "loss": {},
                "took_part": {},
            }
            for way, learners in contenders(header["learners"]):
                runs = [
                    losses(program, data, optimiser, seed, way, learners, header["points"])
                    for seed in range(1, header["seeds"] + 1)
                ]
                name_here = name_of(way, learners)
                row["loss"][name_here] = [found for found, _ in runs]
                row["took_part"][name_here] = min(took_part for _, took_part in runs)
            report["rows"][f"{name} {optimiser}"] = row
            lines = document(report)
            write(path, report, lines)  # the rest may be interrupted
            print(
                "\n".join(table({name: row}, header["points"], header["learners"])[2:]), flush=True
            )
    print("\n".join(document(report)))


def programs_table(found: dict[str, dict[int, Any]]) -> list[str]:
    """Returns Markdown of comparisons by program and number of learners."""
    learners = sorted({n for by_learners in found.values() for n in by_learners})
    header = ["program", "metric", "stock", *(f"{n} learners" for n in learners), "noise"]
    header.append("verdict")
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    for name, by_learners in found.items():
        first = next(iter(by_learners.values()))
        cells = [
            f"`{name}`",
            first.quality.name + (" ↑" if first.quality.higher_is_better else " ↓"),
        ]
        cells += [
            " · ".join(f"{value:.3g}" for value in values)
            for values in (first.stock, *(by_learners[n].several for n in learners))
        ]
        cells.append(f"{first.noise:.2g}")
        cells.append(
            "; ".join(
                f"{n}: " + (f"worse by {c.worse_by:.2g}" if c.worse_by > c.noise else "within")
                for n, c in by_learners.items()
            )
        )
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def compare_programs(arguments: argparse.Namespace, header: dict[str, Any]) -> None:
    """Compares the programs of tests/programs that train on several learners."""
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
    from tests.programs import _harness
    from tests.programs import table as compatibility

    parallel = [
        name
        for name, line in compatibility.rows().items()
        if not compatibility.trained_by(line).startswith("1 learner")
    ]
    path = arguments.results / f"{arguments.output}.json"
    report: dict[str, Any] = {"machine": header["machine"], "seeds": _harness.SEEDS, "rows": {}}
    found: dict[str, dict[int, Any]] = {}
    for name in arguments.only or parallel:
        found[name] = {n: _harness.compare(name, n) for n in header["learners"]}
        report["rows"][name] = {
            "metric": found[name][header["learners"][0]].quality.name,
            "stock": found[name][header["learners"][0]].stock,
            **{f"{n} learners": c.several for n, c in found[name].items()},
        }
        print(programs_table({name: found[name]})[-1], flush=True)
    worse = [name for name, by in found.items() if any(c.worse_by > c.noise for c in by.values())]
    lines = [
        "# The programs of docs/compatibility.md on more learners",
        "",
        f"TensorFlow {header['machine']['tensorflow']}, TensorBow "
        f"{header['machine']['tensorbow']}; {header['machine']['date']}. Default options; three "
        "seeds. *Within*: the mean is no worse than stock's mean by more than the noise, which is "
        "the spread of stock's seeds, at least the tolerance that the program states.",
        "",
        f"{len(found) - len(worse)} of {len(found)} are within at every number of learners.",
        "",
        *programs_table(found),
    ]
    write(path, report, lines)
    print("\n".join(lines))


def main() -> None:
    """Trains, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, help="folder of mnist.npz, cifar10_5k1k.npz")
    parser.add_argument("--only", nargs="+", metavar="PROGRAM", help="merged into the results")
    parser.add_argument(
        "--optimiser",
        nargs="+",
        choices=["sgd", "momentum", "adam"],
        default=["sgd", "momentum", "adam"],
    )
    parser.add_argument("--learners", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="two programs, one seed, 30 runs")
    parser.add_argument("--programs", action="store_true", help="those of tests/programs")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder")
    parser.add_argument("--output", help="name of the result files")
    arguments = parser.parse_args()
    points, seeds = POINTS, arguments.seeds
    if arguments.quick and not arguments.programs:
        points, seeds = QUICK["points"], QUICK["seeds"]
        arguments.only = arguments.only or QUICK["programs"]
    mode = "_programs" if arguments.programs else "_quick" if arguments.quick else ""
    arguments.output = arguments.output or f"drop_in{mode}"

    import tensorbow

    header = {
        "machine": {**machine(), "tensorbow": tensorbow.__version__},
        "points": points,
        "seeds": seeds,
        "learners": sorted(arguments.learners),
        "rows_per_run": ROWS,
        "tolerance": TOLERANCE,
    }
    if arguments.programs:
        compare_programs(arguments, header)
    else:
        compare_own(arguments, header)


if __name__ == "__main__":
    main()
