"""Programs like a user's, step by step, against stock TensorFlow.

    python benchmarks/programs.py [--only NAME …] [--repetitions N] [--seconds S] [--output NAME]

The programs of tests/programs, and those of session_programs.py and keras_programs.py, with
`TensorBowSession()` or `tensorbow.keras.replicate(model)` and otherwise as they are. Stock
TensorFlow and TensorBow are processes of their own, which take turns: single steps at first, then
windows. Writes benchmarks/results/NAME.{json,md}.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from statistics import median
from typing import Any

from interleave import environment, machine, spread, told

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
sys.path.insert(0, str(ROOT))

from tests.python import warm_python  # noqa: E402

FIRST_STEPS = 10  # that are turns of their own
WINDOW_SECONDS = 0.1
EARLY = (2, 3, 5)  # of the steps after the first one, those that the table shows
KERAS = (
    *("perceptron", "CNN", "autoencoder", "embedding + LSTM", "two GRUs", "text transformer"),
    *("vision transformer", "graph convolution", "WGAN-GP"),
)
SESSIONS = (
    *("MLP", "MLP, loss", "MLP, histograms of weights", "MLP, histograms of gradients"),
    *("MLP, histograms of both", "LeNet, histograms of both", "raw CNN", "CNN, 4 towers"),
    "character LSTM",
)
# Programs of tests/programs that differ in more than their data or their optimiser.
SMALL = (
    *("actor_critic", "char_rnn", "cnn", "cond", "contrastive", "dataset_one_shot", "dqn"),
    *("dynamic_rnn", "gan", "gradient_clipping", "graph_network", "lstm", "map_fn", "py_function"),
    *("queue_thread", "recurrent_state", "skip_gram", "slim", "summaries", "towers", "vae"),
)
PROGRAMS = {
    **{f"Keras: {name}": f"keras:{name}" for name in KERAS},
    **{name: f"session:{name}" for name in SESSIONS},
    **{name: f"tests:{name}" for name in SMALL},
}

Turns = list[list[float]]


class Process:
    """A program in a process of its own, and the seconds of its steps by turn."""

    def __init__(self, python: str, name: str, stock: bool) -> None:
        self.turns: Turns = []
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - ends with this
        script = str(ROOT / "benchmarks" / "program_steps.py")
        self._process = subprocess.Popen(
            [python, script, PROGRAMS[name], *["stock"][: int(stock)]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment("cpu"),
        )

    def wait_until_ready(self) -> None:
        """Waits until the program is about to take its first step."""
        assert self._process.stdout
        self._process.stdout.readline()

    def turn(self, seconds: float) -> None:
        """Lets the program train for so many seconds, one step at least."""
        assert self._process.stdin and self._process.stdout
        with contextlib.suppress(BrokenPipeError):  # a program may have ended
            self._process.stdin.write(f"{seconds}\n")
            self._process.stdin.flush()
            if answer := self._process.stdout.readline():
                self.turns.append(json.loads(answer))

    def end(self) -> Turns:
        """Ends the program; returns its turns, without empty ones."""
        assert self._process.stdin and self._process.stdout
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()
        with self._log as log:
            if len(self.turns) < FIRST_STEPS:
                log.seek(0)
                raise RuntimeError(f"{self._process.args} ended\n{log.read()[-3000:]}")
        return [turn for turn in self.turns if turn]


def in_turns(python: str, name: str, seconds: float, stock_first: bool) -> dict[str, Turns]:
    """Returns the seconds of every step of both: "stock" and "ours"."""
    processes = {}
    for stock in (stock_first, not stock_first):
        process = processes["stock" if stock else "ours"] = Process(python, name, stock)
        process.wait_until_ready()
    windows = [0.0] * FIRST_STEPS + [WINDOW_SECONDS] * round(seconds / WINDOW_SECONDS)
    for window in windows:
        for process in processes.values():
            process.turn(window)
    return {kind: process.end() for kind, process in processes.items()}


def steady(turns: Turns) -> list[float]:
    """Returns the medians of the last half of the turns that are windows."""
    windows = turns[FIRST_STEPS:] or turns
    return [median(turn) for turn in windows[len(windows) // 2 :]]


def early(turns: Turns) -> dict[str, float]:
    """Returns the seconds of the first step and of those of EARLY."""
    steps = [second for turn in turns for second in turn]
    return {"first": steps[0], **{f"step {k}": steps[k - 1] for k in EARLY}}


def summary(turns: Sequence[Turns]) -> dict[str, Any]:
    """Returns the figures of one contender, of its turns by repetition; the first is longest."""
    later = [second for turn in turns[0] for second in turn][max(EARLY) :]
    return {
        "steady": steady(turns[0]),
        "largest": max(later),
        "early": [early(found) for found in turns],
    }


def row(name: str, found: dict[str, dict[str, Any]]) -> str:
    """Returns a line of the table, of the summaries of both contenders."""
    stock, ours = found["stock"], found["ours"]
    ratios = [s / o for s, o in zip(stock["steady"], ours["steady"])]  # one may have ended earlier
    firsts = [o["first"] / s["first"] for s, o in zip(stock["early"], ours["early"], strict=True)]
    usual = {kind: median(of["steady"]) for kind, of in found.items()}
    cells = [name, f"{1e3 * usual['stock']:.3g}"]
    cells.append("{:.2f} ({:.2f}–{:.2f})".format(*spread(ratios)))
    cells.append(f"{1e3 * median(e['first'] for e in stock['early']):.0f}")
    cells.append(f"{median(firsts):.2f} ({min(firsts):.2f}–{max(firsts):.2f})")
    for kind, of in found.items():
        steps = [median(e[f"step {k}"] for e in of["early"]) / usual[kind] for k in EARLY]
        cells.append(" · ".join(f"{step:.1f}" for step in steps))
    cells += [f"{of['largest'] / usual[kind]:.1f}" for kind, of in found.items()]
    return "| " + " | ".join(cells) + " |"


def document(where: dict[str, Any], rows: dict[str, Any], repetitions: int) -> str:
    """Returns the report as Markdown."""
    steps = ", ".join(map(str, EARLY))
    heads = ["program", "stock, ms", "steady: stock ÷ TensorBow", "first step of stock, ms"]
    heads += ["first step: TensorBow ÷ stock", f"steps {steps} ÷ steady: stock", "TensorBow"]
    heads += ["largest step after the fifth ÷ steady: stock", "TensorBow"]
    lines = [
        "# Programs like a user's, step by step",
        "",
        f"{told(where)} Default options. Stock and TensorBow take turns, step by step at first, "
        "then in windows. *Steady* is the median of the second half of the windows, with "
        f"quartiles. Early steps are those of {repetitions} new processes each, medians and "
        "ranges; a first step includes the tracing of Keras.",
        "",
        "| " + " | ".join(heads) + " |",
        "|---" * len(heads) + "|",
        *(row(name, found) for name, found in rows.items()),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=list(PROGRAMS), choices=list(PROGRAMS))
    parser.add_argument("--repetitions", type=int, default=3, help="of the first steps")
    parser.add_argument("--seconds", type=float, default=5.5, help="of each after its first steps")
    parser.add_argument("--output", default="programs", help="name of the results")
    arguments = parser.parse_args()
    where = machine()
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    RESULTS.mkdir(exist_ok=True)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with tempfile.TemporaryDirectory() as directory:
        python = warm_python.executable(pathlib.Path(directory), os.getpid())
        for name in arguments.only:
            found = [
                in_turns(python, name, 0 if k else arguments.seconds, stock_first=k % 2 == 0)
                for k in range(arguments.repetitions)
            ]
            rows[name] = {kind: summary([f[kind] for f in found]) for kind in ("stock", "ours")}
            print(row(name, rows[name]), flush=True)
            report = {"machine": where, "repetitions": arguments.repetitions, "programs": rows}
            (RESULTS / f"{arguments.output}.json").write_text(json.dumps(report, indent=1) + "\n")
            text = document(where, rows, arguments.repetitions)
            (RESULTS / f"{arguments.output}.md").write_text(text)


if __name__ == "__main__":
    main()
