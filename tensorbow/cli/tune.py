"""`tensorbow tune`: measures a program with different numbers of learners."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import pathlib
import runpy
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import tensorbow
from tensorbow import datasets, models
from tensorbow.cli import model_names, outputs
from tensorbow.tuning import Measurement

tf1 = tf.compat.v1


class _SettledError(BaseException):
    """Ends a script whose number of learners has been found; no `except Exception` stops it."""


class _Watch:
    """The runs of sessions, until one of them has settled or the time is over."""

    def __init__(self, seconds: float, say: Callable[[str], None]) -> None:
        self._end = time.monotonic() + seconds
        self._say = say
        self._said = 0
        self.tuning: list[Measurement] = []

    def ran(self, session: tensorbow.TensorBowSession) -> bool:
        """Returns true if there is nothing more to find."""
        tuning = session.tuning
        if len(tuning) >= len(self.tuning):
            self.tuning = tuning
        for tried in self.tuning[self._said :]:
            self._say(_sentence(tried))
            self._said += 1
        return any(tried.chosen for tried in tuning) or time.monotonic() > self._end


def _sentence(tried: Measurement) -> str:
    return f"{_layout(tried)}: {tried.note or tried.outcome}"


def _layout(tried: Measurement) -> str:
    learners = "learner " if tried.learners == 1 else "learners"
    threads = "thread" if tried.threads == 1 else "threads"
    return f"{tried.learners} {learners} x {tried.threads} {threads}"


def table(tuning: Sequence[Measurement]) -> str:
    """Returns the trials as aligned text; the chosen layout is marked."""
    best = max((tried.samples_per_second for tried in tuning), default=0.0)
    cells = [["", "samples/s", "of the best", "spread", ""]]
    for tried in tuning:
        share = tried.samples_per_second / best if best > 0 else 0.0
        cells.append(
            [
                _layout(tried),
                f"{tried.samples_per_second:,.0f}",
                f"{share:.0%}",
                f"{tried.spread:.0%}",
                "chosen" if tried.chosen else tried.note,
            ]
        )
    widths = [max(len(row[i]) for row in cells) for i in range(4)]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(row[1:4], widths[1:])]
            + [row[4]]
        ).rstrip()
        for row in cells
    ]
    return "\n".join(lines)


def plot(tuning: Sequence[Measurement], title: str, path: pathlib.Path) -> None:
    """Saves the throughput of every layout as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(1.8 + 1.2 * len(tuning), 4))
    rates = np.array([tried.samples_per_second for tried in tuning])
    spread = np.array([tried.spread for tried in tuning]) * rates / 2
    colours = ["tab:green" if tried.chosen else "tab:grey" for tried in tuning]
    axes.bar(range(len(tuning)), rates, yerr=spread, color=colours, capsize=4)
    axes.set_xticks(range(len(tuning)), [f"{t.learners} × {t.threads}" for t in tuning])
    axes.set_xlabel("learners × threads")
    axes.set_ylabel("samples per second")
    axes.set_title(title)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def model_with_rows(name: str, rows: int) -> tuple[models.Program, dict[Any, Any]]:
    """Returns the program of a model of ours, and feeds of made-up rows."""
    facts = model_names.MODELS[name]
    program = models.build(
        name, facts.shape, facts.classes, lambda: tf1.train.GradientDescentOptimizer(0.01)
    )
    data = datasets.synthetic(name, rows=rows)
    return program, {program.inputs: data.x_train, program.labels: data.y_train}


def tune_model(watch: _Watch, name: str, rows: int) -> None:
    """Trains a model on made-up rows until its number of learners is found."""
    program, feeds = model_with_rows(name, rows)
    options = tensorbow.Options(learners_per_device="auto")
    with tensorbow.TensorBowSession(graph=program.graph, options=options) as session:
        session.run(program.init)
        while not watch.ran(session):
            session.run(program.train_op, feeds)


def _version_1() -> list[Any]:
    """Returns all modules that are called `tf.compat.v1`: the name means another one after
    `import tensorflow.compat.v1`, in the script or in a library."""
    importlib.import_module("tensorflow.compat.v1")
    modules = [module for name, module in sys.modules.items() if name.endswith("compat.v1")]
    return [module for module in modules if getattr(module, "Session", None) is tf1.Session]


@contextlib.contextmanager
def _watched(watch: _Watch) -> Iterator[None]:
    """Makes sessions of a program, stock ones too, search for their number of learners."""

    class Watched(tensorbow.TensorBowSession):
        def __init__(
            self, target: Any = "", graph: Any = None, config: Any = None, options: Any = None
        ) -> None:
            if options is None or options.learners_per_device is None:
                options = tensorbow.Options(learners_per_device="auto")
            super().__init__(target, graph, config, options)

        def run(self, *args: Any, **kwargs: Any) -> Any:
            found = super().run(*args, **kwargs)
            if watch.ran(self):
                raise _SettledError
            return found

    with sessions_are(Watched):
        yield


@contextlib.contextmanager
def sessions_are(kind: type) -> Iterator[None]:
    """Replaces `tf.compat.v1.Session` and `TensorBowSession` by a class."""
    places = [(tensorbow, "TensorBowSession"), *((module, "Session") for module in _version_1())]
    before = [getattr(module, name) for module, name in places]
    for module, name in places:
        setattr(module, name, kind)
    try:
        yield
    finally:
        for (module, name), original in zip(places, before):
            setattr(module, name, original)


def tune_script(watch: _Watch, path: pathlib.Path, arguments: Sequence[str]) -> None:
    """Executes a script until a session of it has found its number of learners."""
    before = sys.argv, list(sys.path)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        with _watched(watch), contextlib.suppress(_SettledError):
            runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = before


def run(arguments: argparse.Namespace) -> int:
    """Runs `tensorbow tune`; returns the exit status."""

    def say(text: str) -> None:
        print(text, flush=True)

    watch, status = _Watch(arguments.seconds, say), 0
    if arguments.model:
        name = f"{arguments.model}, {arguments.batch_size} rows a run"
    else:
        name = arguments.script.name
    say(f"{name}: trying numbers of learners, for at most {arguments.seconds:g} s")
    try:
        if arguments.model:
            tune_model(watch, arguments.model, arguments.batch_size)
        else:
            tune_script(watch, arguments.script, arguments.arguments)
    except KeyboardInterrupt:
        say("tensorbow: interrupted")
        status = 128 + signal.SIGINT
    if not watch.tuning:
        print(
            "Nothing was measured: no session trained long enough. Wanted learning runs on "
            "the CPU for some seconds, in sessions without a number of learners of their own."
        )
        return status or 1
    print()
    print(table(watch.tuning))
    if not any(tried.chosen for tried in watch.tuning):
        print("The time was over before a number was settled on.")
    fine = outputs.write("plot", arguments.plot, lambda path: plot(watch.tuning, name, path))
    return status or int(not fine)
