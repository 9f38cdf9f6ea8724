"""Samples per second: stock TensorFlow and Keras against TensorBow.

    python benchmarks/throughput.py [--models lenet:16 …] [--slices N] [--output NAME]
    python benchmarks/throughput.py --models larger --output throughput_larger
    python benchmarks/throughput.py --against ../earlier --output throughput_before

All contenders of a row are measured in turn, slice by slice, in one call. The ratio of
two contenders is the median of their ratios within a slice. Prints one table for each
model and batch size and writes benchmarks/results/NAME.{json,md}.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib

import numpy as np
from contenders import Contender
from interleave import floor, machine, measure, spread

RESULTS = pathlib.Path(__file__).parent / "results"
DEFAULT_ROWS = ["logistic:16", "lenet:4", "lenet:16", "lenet:32", "resnet20:32"]
# One row for each kind of network that is not among these: --models larger.
LARGER_ROWS = ["resnet50:16", "vgg16:16", "mobilenet:16"]
LARGER_ROWS += ["lstm:16", "transformer:16", "embedding:64"]


def contenders(batch: int, learners: list[int]) -> list[Contender]:
    """Returns everything that is compared at `batch` rows per learner."""
    most = learners[-1]
    found = [
        Contender("tf.Session", "stock_session", batch),
        Contender("tf.Session, 1 thread", "stock_session", batch, {"threads": 1}),
        Contender(f"tf.Session, batch {most * batch}", "stock_session", most * batch),
        Contender("tf.function", "tf_function", batch),
        Contender("tf.function, XLA", "tf_function", batch, {"xla": True}),
        Contender("Keras fit", "keras_fit", batch),
        Contender("TensorBow, 1 learner", "tensorbow_session", batch, {"learners": 1}),
    ]
    for n in learners:
        if n == 1:
            continue
        settings = {"learners": n}
        found.append(
            Contender(f"TensorBow, {n} learners, SMA", "tensorbow_session", n * batch, settings)
        )
    for name, settings in (
        ("S-SGD", {"learners": most, "synchroniser": "SSGD"}),
        ("no averaging", {"learners": most, "averaging": False}),
    ):
        found.append(
            Contender(
                f"TensorBow, {most} learners, {name}", "tensorbow_session", most * batch, settings
            )
        )
    return found


def against(tree: str, compared: list[Contender]) -> list[Contender]:
    """Returns the first contender, and several learners of this tree and of another one."""
    several = [c for c in compared if c.name.startswith("TensorBow") and c.settings["learners"] > 1]
    found = [compared[0]]
    for contender in several:
        name = f"{contender.name}, before"
        found += [contender, dataclasses.replace(contender, name=name, tree=tree)]
    return found


def table(speeds: dict[str, list[float]], limit: float) -> list[str]:
    """Returns Markdown: samples/s with quartiles, the ratio to the first contender, and the share
    of the kernel-time floor."""
    baseline = next(iter(speeds))
    lines = [
        f"| | samples/s (quartiles) | ÷ {baseline} | of the floor |",
        "|---|---|---|---|",
    ]
    for name, values in speeds.items():
        median, low, high = spread(values)
        ratio, ratio_low, ratio_high = spread(np.divide(values, speeds[baseline]))
        lines.append(
            f"| {name} | {median:,.0f} ({low:,.0f}–{high:,.0f}) | "
            f"{ratio:.2f} ({ratio_low:.2f}–{ratio_high:.2f}) | {median / limit:.0%} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--models",
        nargs="+",
        default=DEFAULT_ROWS,
        metavar="MODEL:BATCH",
        help="or larger: each network that is not a default",
    )
    parser.add_argument("--slices", type=int, default=15, help="slices of each contender")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a slice")
    parser.add_argument("--learners", type=int, nargs="+", help="numbers of learners")
    parser.add_argument("--only", help="only contenders whose name contains this, and the first")
    parser.add_argument(
        "--against",
        metavar="TREE",
        help="another working tree, built in place: several learners there and here",
    )
    parser.add_argument("--output", default="throughput", help="name of the result files")
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    learners = sorted(arguments.learners or {1, cores})

    where = machine()
    report = {"machine": where, "slices": arguments.slices, "rows": {}}
    lines = [
        "# Throughput",
        "",
        f"{where['cpu']}, {where['cores']} cores, {where['memory_gib']} GiB; TensorFlow "
        f"{where['tensorflow']}, Keras {where['keras']}, Python {where['python']}; "
        f"{where['date']}.",
        f"{arguments.slices} slices of {arguments.seconds} s each, taken in turn; medians with "
        "quartiles. The floor is the kernel time of one learning task on one thread, divided by "
        "the number of cores.",
    ]
    for row in LARGER_ROWS if arguments.models == ["larger"] else arguments.models:
        model, batch_text = row.split(":")
        batch = int(batch_text)
        compared = contenders(batch, learners)
        if arguments.only:
            compared = compared[:1] + [c for c in compared[1:] if arguments.only in c.name]
        if arguments.against:
            compared = against(os.path.abspath(arguments.against), compared)
        seconds = floor(model, batch)
        limit = cores * batch / seconds
        speeds = measure(model, compared, arguments.slices, arguments.seconds)
        title = (
            f"## {model}, batch {batch} per learner (floor: {limit:,.0f} samples/s, one task's "
            f"kernels take {seconds * 1e3:.2f} ms)"
        )
        section = ["", title, "", *table(speeds, limit)]
        print("\n".join(section), flush=True)
        lines += section
        report["rows"][row] = {"kernel_seconds": seconds, "floor": limit, "samples_per_s": speeds}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{arguments.output}.json").write_text(json.dumps(report, indent=1) + "\n")
    (RESULTS / f"{arguments.output}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
