"""Sparse rows: training and reading them, against stock TensorFlow and scikit-learn.

    python benchmarks/sparse.py --data FOLDER [--parts training features reader stream]

- *training*: the model of extreme labels on Bibtex, two learners against a stock session that is
fed as many rows; goal: at least 1.5 times its samples/s.
- *features*: a step and its memory as the number of features grows, with as many values a row.
- *reader*: `tensorbow.data.libsvm` against scikit-learn's `load_svmlight_file`, on rows with the
statistics of Amazon-670K (power_law.py), by batch size and by consumer of the batches.
- *stream*: memory while a million rows are streamed.

Contenders are processes of their own that take turns. Writes benchmarks/results/NAME.{json,md},
whose other parts stay as they are.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import tempfile
from typing import Any

import numpy as np
import power_law
from contenders import Contender
from interleave import Process, answer_of, in_turns, machine, measure, spread, told

RESULTS = pathlib.Path(__file__).parent / "results"
PARTS = ("training", "features", "reader", "stream")
ROWS = 128  # fed in a step
MEGA_BATCH = 2440
READER_BATCHES = (32, 256, 4096)


def _cell(values: Any, form: str) -> str:
    median, low, high = (form.format(value) for value in spread(values))
    return f"{median} ({low}–{high})"


def training(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns samples/s on Bibtex, by optimiser and contender."""
    path = str(arguments.data / "bibtex_train.libsvm.gz")
    found = {}
    for optimiser in arguments.optimisers:
        common = {"path": path, "optimiser": optimiser}
        two = common | {"learners": 2}
        adaptive = {"b_max": ROWS // 2, "mega_batch": MEGA_BATCH, "momentum": 0.0}
        contenders = [
            Contender("stock", "sparse_session", ROWS, common),
            Contender("SSGD", "sparse_session", ROWS, two | {"synchroniser": "SSGD"}),
            Contender("SMA", "sparse_session", ROWS, two | {"synchroniser": "SMA"}),
            Contender(
                "AdaptiveSGD",
                "sparse_session",
                MEGA_BATCH,
                two | {"synchroniser": "AdaptiveSGD", "adaptive": adaptive},
            ),
        ]
        found[optimiser] = measure("bibtex", contenders, arguments.slices, arguments.seconds)
    return found


def _training_lines(found: dict[str, Any]) -> list[str]:
    lines = [
        "## Training on Bibtex",
        "",
        f"4,880 rows of 1,836 features, 159 labels; 128 hidden units; {ROWS} rows fed in a step, "
        f"to AdaptiveSGD {MEGA_BATCH} in batches of at most {ROWS // 2}. Wanted: 1.5.",
        "",
        "| optimiser | contender | samples/s | ÷ stock |",
        "|---|---|---|---|",
    ]
    for optimiser, speeds in found.items():
        for name, values in speeds.items():
            ratio = _cell(np.divide(values, speeds["stock"]), "{:.2f}")
            lines.append(f"| {optimiser} | {name} | {_cell(values, '{:,.0f}')} | {ratio} |")
    return lines


def features(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns milliseconds of a step and bytes by which the process grows, by number of
    features."""
    found: dict[str, Any] = {}
    for count in arguments.features:
        for optimiser in arguments.optimisers:
            common = {"features": count, "hidden": arguments.hidden, "optimiser": optimiser}
            ways = {"stock": {}, "1 learner": {"learners": 1}}
            for name in ("SSGD", "SMA", "AdaptiveSGD"):
                ways[name] = {"learners": 2, "synchroniser": name}
            ways["AdaptiveSGD"]["adaptive"] = {"b_max": ROWS // 2, "momentum": 0.0}
            processes = {
                name: Process(Contender(name, "sparse_session", ROWS, common | way), "sweep")
                for name, way in ways.items()
            }
            for process in processes.values():
                process.wait_until_ready()
                process.calibrate(arguments.seconds)
            speeds = in_turns(processes, arguments.slices)
            for name, process in processes.items():
                milliseconds = [1000 * ROWS / speed for speed in speeds[name]]
                found.setdefault(optimiser, {}).setdefault(name, {})[str(count)] = {
                    "milliseconds": milliseconds,
                    "bytes": process.value(),
                }
                process.end()
                print(count, optimiser, name, found[optimiser][name][str(count)], flush=True)
    return found


def _features_lines(found: dict[str, Any], hidden: int) -> list[str]:
    counts = list(next(iter(next(iter(found.values())).values())))
    lines = [
        "## Features",
        "",
        f"{ROWS} rows a step, about {power_law.AMAZON_670K.features_a_row:.0f} values a row, "
        f"{hidden} hidden units: milliseconds of a step; in brackets the MiB by which the process "
        "grows, at most. Two learners but where it says one.",
        "",
        "| optimiser | contender | " + " | ".join(f"{int(c):,}" for c in counts) + " |",
        "|---|---|" + "---|" * len(counts),
    ]
    for optimiser, ways in found.items():
        for name, by_count in ways.items():
            cells = []
            for count in counts:
                milliseconds, size = by_count[count]["milliseconds"], by_count[count]["bytes"]
                cells.append(f"{_cell(milliseconds, '{:.2f}')} [{size / 2**20:,.0f}]")
            lines.append(f"| {optimiser} | {name} | " + " | ".join(cells) + " |")
    return lines


def _file(folder: str, rows: int, repeat: int = 1) -> dict[str, Any]:
    """Returns settings of readers for a file of rows like Amazon-670K's."""
    statistics = power_law.AMAZON_670K
    path = pathlib.Path(folder) / f"{rows}x{repeat}.txt"
    power_law.write(path, power_law.rows(statistics, rows), statistics, repeat, header=False)
    return {"path": str(path), "features": statistics.features, "labels": statistics.labels}


def _readers(rows: int, file: dict[str, Any]) -> dict[str, Process]:
    """Returns the readers by their names in the table."""
    ways: dict[str, tuple[str, dict[str, Any]]] = {}
    for consumer, model in (("in a session", "session"), ("in Python", "loop")):
        for batch in READER_BATCHES:
            ways[f"tensorbow.data.libsvm, {batch:,} rows a batch, {consumer}"] = (
                model,
                {"batch": batch},
            )
    for model in ("shuffled", "ragged"):
        ways[f"tensorbow.data.libsvm, 256, in Python, {model}"] = (model, {"batch": 256})
    ways["scikit-learn"] = ("scikit-learn", {})
    ways["bytes alone"] = ("bytes", {})
    return {
        name: Process(Contender(name, "sparse_reader", rows, file | more), model)
        for name, (model, more) in ways.items()
    }


def reader(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns rows/s by reader and slice, bytes that a core reads in a second, and those of a
    row."""
    with tempfile.TemporaryDirectory() as folder:
        file = _file(folder, arguments.rows)
        size = pathlib.Path(file["path"]).stat().st_size
        processes = _readers(arguments.rows, file)
        speeds: dict[str, list[float]] = {name: [] for name in processes}
        by_core: dict[str, list[float]] = {name: [] for name in processes}
        for process in processes.values():
            process.wait_until_ready()
        order = list(processes)
        for _ in range(arguments.slices):
            for name in order:
                speeds[name].append(processes[name].slice())
                by_core[name].append(size / processes[name].value())
            order = order[1:] + order[:1]
        for process in processes.values():
            process.end()
    return {
        "bytes_a_row": size / arguments.rows,
        "rows_per_s": speeds,
        "bytes_per_core_second": by_core,
    }


def _reader_lines(found: dict[str, Any]) -> list[str]:
    lines = [
        "## Reading",
        "",
        f"Rows like Amazon-670K's, {found['bytes_a_row']:.0f} bytes a row, in text that is not "
        "compressed and in the system's cache. MB/s a core: by the time that a core has worked. In "
        "Python a `for` takes the batches, of which TensorFlow makes tensors one by one.",
        "",
        "| reader | rows/s | ÷ scikit-learn | MB/s | MB/s a core |",
        "|---|---|---|---|---|",
    ]
    speeds = found["rows_per_s"]
    for name, values in speeds.items():
        megabytes = [value * found["bytes_a_row"] / 1e6 for value in values]
        ratio = _cell(np.divide(values, speeds["scikit-learn"]), "{:.1f}")
        cells = [name, _cell(values, "{:,.0f}"), ratio, _cell(megabytes, "{:,.0f}")]
        by_core = np.divide(found["bytes_per_core_second"][name], 1e6)
        cells.append(_cell(by_core, "{:,.0f}"))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def stream(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the bytes of the process while rows are read."""
    with tempfile.TemporaryDirectory() as folder:
        repeat = arguments.streamed // arguments.rows
        file = _file(folder, arguments.rows, repeat)
        job = json.dumps(file | {"rows": arguments.rows * repeat})
        return answer_of(str(pathlib.Path(__file__).parent / "sparse_contenders.py"), job)


def _stream_lines(found: dict[str, Any]) -> list[str]:
    rows = [f"{count:,}" for count in found["rows"]]
    resident = [f"{size / 2**20:,.0f}" for size in found["resident"]]
    return [
        "## Streaming",
        "",
        f"{found['file_bytes'] / 1e6:,.0f} MB of text in batches of 256: MiB of the process as "
        "rows go by.",
        "",
        "| rows | " + " | ".join(rows) + " |",
        "|---|" + "---|" * len(rows),
        "| MiB | " + " | ".join(resident) + " |",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, help="folder of bibtex_train.libsvm.gz")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--optimisers", nargs="+", default=["adam", "sgd", "adagrad"])
    parser.add_argument("--features", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--hidden", type=int, default=64, help="units, where features grow")
    parser.add_argument("--rows", type=int, default=20_000, help="of the file that is read")
    parser.add_argument("--streamed", type=int, default=1_000_000, help="rows")
    parser.add_argument("--slices", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a slice")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder")
    parser.add_argument("--output", default="sparse", help="name of the results")
    arguments = parser.parse_args()
    if "training" in arguments.parts and arguments.data is None:
        parser.error("the part training needs --data")
    target = arguments.results / f"{arguments.output}.json"
    report: dict[str, Any] = json.loads(target.read_text()) if target.exists() else {}
    measures = {"training": training, "features": features, "reader": reader, "stream": stream}
    for part in arguments.parts:
        report[part] = {
            "machine": machine(),
            "load": os.getloadavg()[0],
            "slices": arguments.slices,
            "seconds": arguments.seconds,
            "hidden": arguments.hidden,
            "found": measures[part](arguments),
        }
        target.write_text(json.dumps(report, indent=1) + "\n")
    text = "\n".join(_lines(report)) + "\n"
    target.with_suffix(".md").write_text(text)
    print(text)


def _lines(report: dict[str, Any]) -> list[str]:
    lines = ["# Sparse rows"]
    for part in PARTS:
        if part not in report:
            continue
        kept = report[part]
        found = kept["found"]
        if part == "features":
            lines += ["", *_features_lines(found, kept["hidden"])]
        else:
            tell = {"training": _training_lines, "reader": _reader_lines, "stream": _stream_lines}
            lines += ["", *tell[part](found)]
        lines += ["", told(kept["machine"])]
        if part != "stream":
            lines[-1] += f" Medians with quartiles of {kept['slices']} slices, taken in turn."
        lines[-1] += f" The load average was {kept['load']:.1f} at the beginning."
        if part != "stream" and kept["load"] > 2 * kept["machine"]["cores"]:
            lines[-1] += " Others computed here meanwhile: what is by the clock is low."
    return lines


if __name__ == "__main__":
    main()
