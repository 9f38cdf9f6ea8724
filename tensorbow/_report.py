"""What `tensorbow train` shows and saves: a progress bar, a table, a picture, all numbers."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

SECONDS_BETWEEN_METRICS = 0.5  # on the progress bar
SECONDS_BETWEEN_LINES = 10.0  # where there is no bar


class Bar:
    """A progress bar on a terminal; elsewhere, and without tqdm, a line now and then."""

    def __init__(self, name: str, epochs: int) -> None:
        self._name = name
        self._epochs = epochs
        self._bar: Any = None
        self._next_metrics = 0.0  # time.monotonic()
        self._accuracy: list[float] = []  # by epoch, as far as training is
        self._runs = 0  # of all epochs
        self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES
        self.session: Any = None  # its metrics are shown, if it has any

    def __call__(self, progress: Any, runs_done: int, runs: int) -> None:
        self._accuracy = progress.accuracy
        self._runs = self._epochs * runs
        self._show(progress, len(progress.accuracy) * runs + runs_done)

    def _show(self, progress: Any, runs_done: int) -> None:
        """`runs_done`: of all epochs."""
        try:
            from tqdm import tqdm
        except ImportError:
            self._say(runs_done)
            return
        if self._bar is None:
            self._bar = tqdm(
                total=self._runs,
                desc=self._name,
                unit="run",
                disable=None if not os.environ.get("TENSORBOW_PROGRESS") else False,
                leave=False,
            )
        self._bar.update(1)
        if self._bar.disable:
            self._say(runs_done)
        if self._bar.disable or time.monotonic() < self._next_metrics:
            return
        self._next_metrics = time.monotonic() + SECONDS_BETWEEN_METRICS
        shown = {"epoch": str(len(progress.accuracy) + 1)}
        if progress.accuracy:
            shown["accuracy"] = f"{progress.accuracy[-1]:.4f}"
        if hasattr(self.session, "metrics"):
            metrics = self.session.metrics()
            shown["learners"] = str(len(metrics.learners))
            shown["samples/s"] = f"{metrics.samples_per_second:,.0f}"
        self._bar.set_postfix(shown)

    def _say(self, runs_done: int) -> None:
        if time.monotonic() < self._next_line:
            return
        self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES
        reached = f", test accuracy {self._accuracy[-1]:.4f}" if self._accuracy else ""
        print(
            f"{self._name}: run {runs_done:,} of {self._runs:,}, "
            f"epoch {len(self._accuracy) + 1} of {self._epochs}{reached}",
            file=sys.stderr,
            flush=True,
        )

    def interrupted(self) -> None:
        """Says how far training was."""
        self.close()
        reached = f", test accuracy {self._accuracy[-1]:.4f}" if self._accuracy else ""
        print(
            f"{self._name}: interrupted after {len(self._accuracy)} of {self._epochs} epochs"
            f"{reached}",
            flush=True,
        )

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _measures(progress: Any) -> list[str]:
    """What is said of the test set at the end."""
    if not progress.precision:
        return ["final test accuracy"]
    from tensorbow import extreme

    return [f"precision@{k}" for k in extreme.TOP]


def _table(rows: Sequence[Any]) -> str:
    """The contenders' results as aligned text."""
    cells = [
        ["", "samples/s", "epochs to target", "seconds to target", *_measures(rows[0])],
        *(
            [
                p.name,
                f"{p.samples_per_second:,.0f}",
                str(p.epochs_to_target or "not reached"),
                "not reached" if p.seconds_to_target is None else f"{p.seconds_to_target:.2f}",
                *(f"{value:.4f}" for value in (p.precision or [[p.accuracy[-1]]])[-1]),
            ]
            for p in rows
        ),
    ]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = [
        "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths)))
        for row in cells
    ]
    lines.insert(1, "-" * len(lines[0]))
    return "\n".join(lines)


def report(arguments: argparse.Namespace, data: str, results: list[Any]) -> int:
    """Prints and saves what was found; the exit status."""
    print(_table(results))
    if len(results) == 2:
        ratio = results[1].samples_per_second / results[0].samples_per_second
        print(f"throughput: {ratio:.2f} times stock TensorFlow's")
    if arguments.plot:
        from tensorbow import plots

        plots.training(results, f"{arguments.model} on {data}", arguments.plot)
        print(f"plot saved as {arguments.plot}")
    if arguments.json:
        numbers = [
            {
                "name": p.name,
                "target": p.target,
                "samples": p.samples,
                "seconds": p.seconds,
                "accuracy": p.accuracy,
                **({"precision": p.precision} if p.precision else {}),
            }
            for p in results
        ]
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")
    return 0
