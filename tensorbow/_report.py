"""What `tensorbow train` shows and saves: a progress bar, a table, a picture, all numbers."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import time
from collections.abc import Sequence
from typing import Any

SECONDS_BETWEEN_METRICS = 0.5  # on the progress bar


class Bar:
    """A progress bar on a terminal, silence elsewhere and without tqdm."""

    def __init__(self, name: str, epochs: int) -> None:
        self._name = name
        self._epochs = epochs
        self._bar: Any = None
        self._next_metrics = 0.0  # time.monotonic()
        self.session: Any = None  # its metrics are shown, if it has any

    def __call__(self, progress: Any, runs_done: int, runs: int) -> None:
        try:
            from tqdm import tqdm
        except ImportError:
            return
        if self._bar is None:
            self._bar = tqdm(
                total=self._epochs * runs,
                desc=self._name,
                unit="run",
                disable=None if not os.environ.get("TENSORBOW_PROGRESS") else False,
                leave=False,
            )
        self._bar.update(1)
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


def _plot(rows: Sequence[Any], title: str, path: pathlib.Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (over_time, over_samples) = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True)
    for p in rows:
        over_time.plot(p.seconds, p.accuracy, marker="o", label=p.name)
        over_samples.plot([s / 1000 for s in p.samples], p.accuracy, marker="o", label=p.name)
    for axes in (over_time, over_samples):
        axes.axhline(rows[0].target, color="grey", linestyle=":", label="target")
        axes.grid(alpha=0.3)
    over_time.set_xlabel("training time [s]")
    over_samples.set_xlabel("training samples [thousands]")
    over_time.set_ylabel("precision@1 on the test set" if rows[0].precision else "test accuracy")
    over_time.legend(loc="lower right")
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def report(arguments: argparse.Namespace, data: str, results: list[Any]) -> int:
    """Prints and saves what was found; the exit status."""
    print(_table(results))
    if len(results) == 2:
        ratio = results[1].samples_per_second / results[0].samples_per_second
        print(f"throughput: {ratio:.2f} times stock TensorFlow's")
    if arguments.plot:
        _plot(results, f"{arguments.model} on {data}", arguments.plot)
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
