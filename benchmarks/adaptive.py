"""Learners of different speed on sparse data: seconds until a precision is reached.

    python benchmarks/adaptive.py --data FOLDER

The model is that of the paper (Ma and Rusu, arXiv 2110.07029): sparse rows → 128 ReLU → softmax
over the labels, cross-entropy with 1 / |labels| for each true label. Here it has Adam and dropout.
The data set is Bibtex (4,880 + 2,515 rows, 1,836 features, 159 labels).

There are two learners on a core each. Processes that spin share the second one's core and make it
slower by a given factor. In another condition the first learner has as many threads as there are
cores, and the second one has one.

Every contender is fed the same half epochs, one in a run. Only the seconds of runs count; the test
set is evaluated between them. Contenders take turns, seed by seed. Writes
benchmarks/results/NAME.{json,md}.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from interleave import machine, spread, told

import tensorbow

RESULTS = pathlib.Path(__file__).parent / "results"
FEATURES, LABELS, HIDDEN = 1836, 159, 128
BATCH = 64
DROPOUT = np.float32(0.3)
MEGA_BATCH = 2440  # half of the training set
WARM_UP_RUNS = 2
tf1 = tf.compat.v1


class Rows:
    """Sparse rows with labels: `x.indptr` and so on, as in scipy's CSR."""

    def __init__(self, path: pathlib.Path) -> None:
        columns, values, ends, labels = [], [], [0], []
        with gzip.open(path, "rt") as lines:
            for line in lines:
                first, *features = line.split()
                for feature in features:
                    column, value = feature.split(":")
                    columns.append(int(column) - 1)
                    values.append(float(value))
                ends.append(len(columns))
                labels.append([int(label) for label in first.split(",")])
        self.columns, self.values = np.array(columns), np.array(values, np.float32)
        self.ends = np.array(ends)
        self.labels = np.zeros((len(labels), LABELS), np.float32)
        for row, true in enumerate(labels):
            self.labels[row, true] = 1

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: np.ndarray) -> tuple[Any, np.ndarray]:
        """Returns these rows as a sparse value, and their targets."""
        counts = self.ends[rows + 1] - self.ends[rows]
        at = np.concatenate([np.arange(self.ends[r], self.ends[r + 1]) for r in rows])
        indices = np.stack([np.repeat(np.arange(len(rows)), counts), self.columns[at]], axis=1)
        value = tf1.SparseTensorValue(indices, self.values[at], (len(rows), FEATURES))
        true = self.labels[rows]
        return value, true / true.sum(1, keepdims=True)


class Program:
    """The graph."""

    def __init__(self, rate: float, seed: int) -> None:
        self.graph = tf.Graph()
        rng = np.random.default_rng(seed)
        with self.graph.as_default():
            self.x = tf1.sparse_placeholder(tf.float32, [None, FEATURES], "x")
            self.y = tf1.placeholder(tf.float32, [None, LABELS], "y")

            def variable(name: str, shape: list[int], scale: float) -> Any:
                value = rng.normal(size=shape).astype(np.float32) * scale
                return tf1.get_variable(name, initializer=value, use_resource=True)

            w1 = variable("w1", [FEATURES, HIDDEN], (2 / (FEATURES + HIDDEN)) ** 0.5)
            w2 = variable("w2", [HIDDEN, LABELS], (2 / (HIDDEN + LABELS)) ** 0.5)
            b1, b2 = variable("b1", [HIDDEN], 0), variable("b2", [LABELS], 0)
            hidden = tf.nn.relu(tf.sparse.sparse_dense_matmul(self.x, w1) + b1)
            self.dropout = tf1.placeholder_with_default(np.float32(0), [], "dropout")
            hidden = tf.nn.dropout(hidden, rate=self.dropout)
            self.logits = hidden @ w2 + b2
            loss = tf.reduce_mean(
                tf.nn.softmax_cross_entropy_with_logits(labels=self.y, logits=self.logits)
            )
            self.train = tf1.train.AdamOptimizer(rate).minimize(loss)
            self.init = tf1.global_variables_initializer()


def synchronisers(mega_batch: int) -> dict[str, Any]:
    """Returns the synchronisers by name; None is stock TensorFlow, fed one batch after the
    other."""
    return {
        "stock": None,
        "SSGD": tensorbow.SSGD(),
        "SMA": tensorbow.SMA(),
        "EASGD": tensorbow.EASGD(),
        "AdaptiveSGD": tensorbow.AdaptiveSGD(b_max=BATCH, mega_batch=mega_batch, momentum=0.0),
        "AdaptiveSGD, 10 batches": tensorbow.AdaptiveSGD(
            b_max=BATCH, mega_batch=10 * BATCH, momentum=0.0
        ),
        "AdaptiveSGD, momentum 0.9": tensorbow.AdaptiveSGD(b_max=BATCH, mega_batch=mega_batch),
    }


def session_of(program: Program, synchroniser: Any, **more: Any) -> Any:
    """Makes a session. `more`: further options if it has learners."""
    if synchroniser is None:
        return tf1.Session(graph=program.graph)
    batches = not isinstance(synchroniser, tensorbow.AdaptiveSGD)
    options = tensorbow.Options(
        learners_per_device=2,
        synchroniser=synchroniser,
        batch_size=BATCH if batches else None,
        shard=[program.x, program.y],
        **more,
    )
    return tensorbow.TensorBowSession(graph=program.graph, options=options)


@contextlib.contextmanager
def slowed(times: int, core: int | None = None) -> Iterator[None]:
    """Keeps a core busy with other processes; None is the last core that this process may use."""
    core = sorted(os.sched_getaffinity(0))[-1] if core is None else core
    spin = "while True: pass"
    others = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(times - 1)]
    try:
        for process in others:
            os.sched_setaffinity(process.pid, {core})
        yield
    finally:
        for process in others:
            process.kill()
            process.wait()


def precision(session: Any, program: Program, test: Rows) -> float:
    """Returns how often the label with the greatest probability is a true one."""
    x, y = test.take(np.arange(len(test)))
    top = np.argmax(session.run(program.logits, {program.x: x}), axis=1)
    return float(np.mean(y[np.arange(len(y)), top] > 0))


def seconds_to(
    synchroniser: Any,
    rate: float,
    seed: int,
    train: Rows,
    test: Rows,
    goal: float,
    epochs: int,
    **more: Any,
) -> dict[str, Any]:
    """Trains until the goal is reached. `more`: further options of the session.

    Returns:
      seconds: of training, None if the goal was not reached; rows: until then; best: the
      highest precision; sizes: of the learners' last batches, if they vary.
    """
    program = Program(rate, seed)
    rng = np.random.default_rng(seed)
    seconds, rows, best, reached = 0.0, 0, 0.0, None
    with session_of(program, synchroniser, **more) as session:
        session.run(program.init)
        for _ in range(WARM_UP_RUNS):
            x, y = train.take(np.arange(2 * BATCH))
            feeds = {program.x: x, program.y: y, program.dropout: DROPOUT}
            session.run(program.train, feeds)
        session.run(program.init)
        for _ in range(epochs):
            order = rng.permutation(len(train))
            for half in np.split(order, 2):
                size = BATCH if synchroniser is None else len(half)
                parts = [train.take(half[k : k + size]) for k in range(0, len(half), size)]
                begin = time.perf_counter()
                for x, y in parts:
                    feeds = {program.x: x, program.y: y, program.dropout: DROPOUT}
                    session.run(program.train, feeds)
                seconds += time.perf_counter() - begin
                rows += len(half)
                best = max(best, precision(session, program, test))
                if best >= goal and reached is None:
                    reached = seconds
                    break
            if reached is not None:
                break
        records = [] if synchroniser is None else session.adaptive
        sizes = list(records[-1].sizes) if records else None
    return {"seconds": reached, "rows": rows, "best": best, "sizes": sizes, "rate": rate}


def tuned(synchroniser: Any, rates: list[float], train: Rows, test: Rows, epochs: int) -> float:
    """Returns the rate with the best precision after `epochs`, by an extra seed."""
    found = [
        seconds_to(synchroniser, rate, 1000, train, test, 2.0, epochs)["best"] for rate in rates
    ]
    return rates[int(np.argmax(found))]


class Condition(NamedTuple):
    """A condition in which learners are of different speed."""

    name: str
    slowed: int = 1
    threads: list[int] | None = None


def measured(
    contenders: dict[str, Any],
    rates: dict[str, float],
    condition: Condition,
    data: tuple[Rows, Rows],
    arguments: argparse.Namespace,
) -> dict[str, list[dict[str, Any]]]:
    """Returns `seconds_to` of every contender, seed by seed."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
    with slowed(condition.slowed):
        for seed in range(arguments.seeds):
            for name, choice in contenders.items():
                run = seconds_to(
                    choice,
                    rates[name],
                    seed,
                    *data,
                    arguments.goal,
                    arguments.epochs,
                    threads_per_learner=condition.threads,
                )
                runs[name].append(run)
                print(condition.name, seed, name, run, flush=True)
    return runs


def cell(outcomes: list[dict[str, Any]]) -> str:
    """Returns a cell of the table: seconds and rows, if all seeds have reached the goal."""
    reached = [run["seconds"] for run in outcomes if run["seconds"] is not None]
    if len(reached) < len(outcomes):
        return f"not reached in {len(outcomes) - len(reached)} runs"
    median, low, high = spread(reached)
    rows = int(np.median([run["rows"] for run in outcomes]))
    return f"{median:.2f} ({low:.2f}–{high:.2f}) [{rows:,}]"


def header(where: dict[str, Any], names: list[str], arguments: argparse.Namespace) -> list[str]:
    return [
        "# Learners of different speed",
        "",
        told(where),
        f"Seconds of training until precision@1 is {arguments.goal:.0%} on Bibtex's test set, the "
        f"median of {arguments.seeds} seeds with quartiles, in brackets the rows trained on; "
        f"batches of {BATCH} rows, Adam, dropout {DROPOUT:g}, for each the best of the rates "
        f"{', '.join(map(str, arguments.rates))} after 8 epochs on equal cores. Two learners; the "
        "core of one is shared with spinning processes so that it is as much slower as said, or "
        "the learners have so many threads. Stock TensorFlow uses both cores. Sizes: of the "
        "learners' batches, in the end.",
        "",
        "| contender | rate | " + " | ".join(names) + " | sizes |",
        "|---|---|" + "---|" * (len(names) + 1),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, required=True, help="of bibtex_*.libsvm.gz")
    parser.add_argument("--slowed", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--threads", type=int, nargs="*", default=[2, 1], help="of each learner")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.002, 0.005, 0.01, 0.02])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--goal", type=float, default=0.6)
    parser.add_argument("--epochs", type=int, default=30, help="at most")
    parser.add_argument("--only", nargs="+", help="contenders")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder")
    parser.add_argument("--output", default="adaptive", help="name of the results")
    arguments = parser.parse_args()
    train, test = (Rows(arguments.data / f"bibtex_{part}.libsvm.gz") for part in ("train", "test"))
    contenders = {
        name: choice
        for name, choice in synchronisers(MEGA_BATCH).items()
        if not arguments.only or name in arguments.only
    }
    rates = {
        name: tuned(choice, arguments.rates, train, test, min(8, arguments.epochs))
        for name, choice in contenders.items()
    }
    conditions = [Condition(f"{times}×", times) for times in arguments.slowed]
    if arguments.threads:
        told_threads = " and ".join(map(str, arguments.threads))
        conditions.append(Condition(f"threads {told_threads}", threads=arguments.threads))
    where = machine()
    report: dict[str, Any] = {"machine": where, "rates": rates, "rows": []}
    lines = header(where, [condition.name for condition in conditions], arguments)
    cells: dict[str, list[str]] = {name: [] for name in contenders}
    sizes: dict[str, list[str]] = {name: [] for name in contenders}
    for condition in conditions:
        runs = measured(contenders, rates, condition, (train, test), arguments)
        for name, outcomes in runs.items():
            report["rows"].append({**condition._asdict(), "contender": name, "runs": outcomes})
            cells[name].append(cell(outcomes))
            last = outcomes[-1]["sizes"]
            sizes[name].append("—" if last is None else " and ".join(map(str, last)))
    for name in contenders:
        last = "; ".join(sizes[name] if any(size != "—" for size in sizes[name]) else ["—"])
        lines.append(f"| {name} | {rates[name]:g} | " + " | ".join(cells[name]) + f" | {last} |")
    arguments.results.mkdir(exist_ok=True)
    (arguments.results / f"{arguments.output}.json").write_text(json.dumps(report, indent=1))
    (arguments.results / f"{arguments.output}.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
