"""Output of `tensorbow train`: a progress bar, a table, a picture, all numbers."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from tensorbow._runtime.messages import count
from tensorbow.cli import outputs
from tensorbow.cli.train.turns import Progress, Ratio, ratio

SECONDS_BETWEEN_METRICS = 0.5  # on the progress bar
SECONDS_BETWEEN_LINES = 10.0  # where there is no bar


class Bar:
    """A progress bar on a terminal; elsewhere, and without tqdm, a line now and then.

    Args:
      rows: of an epoch.
      epochs: of every contender, as far as they are known.
      contenders: how many take turns.
    """

    def __init__(self, rows: int, epochs: int, contenders: int) -> None:
        self._rows, self._epochs, self._contenders = rows, epochs, contenders
        self._done = 0  # rows of all contenders
        self._next_metrics = 0.0  # time.monotonic()
        self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES
        self._bar = self._new_bar()

    @property
    def _total(self) -> int:
        return self._rows * self._epochs * self._contenders

    def _new_bar(self) -> Any:
        """Returns the bar; None where there is none to be seen."""
        try:
            from tqdm import tqdm
        except ImportError:
            return None
        disable = False if os.environ.get("TENSORBOW_PROGRESS") else None  # None: by the terminal
        bar = tqdm(total=self._total, desc="compiling", unit="row", disable=disable, leave=False)
        return None if bar.disable else bar

    def __call__(self, progress: Progress, rows: int, session: Any) -> None:
        """Adds the rows that a contender has trained.

        Args:
          session: of the contender; its metrics are shown, if it has any.
        """
        self._done += rows
        self._epochs = max(self._epochs, len(progress.accuracy))
        # Contenders train more epochs than asked for if they are to be measured for longer.
        while self._done > self._total:
            self._epochs += 1
        if self._bar is None:
            self._say(progress)
            return
        self._bar.total = self._total
        self._bar.update(rows)
        if time.monotonic() < self._next_metrics:
            return
        self._next_metrics = time.monotonic() + SECONDS_BETWEEN_METRICS
        self._bar.set_description(progress.name, refresh=False)
        shown = {"epoch": str(len(progress.accuracy) + 1)}
        if progress.accuracy:
            shown["accuracy"] = f"{progress.accuracy[-1]:.4f}"
        if hasattr(session, "metrics"):
            metrics = session.metrics()
            shown["learners"] = str(len(metrics.learners))
            shown["samples/s"] = f"{metrics.samples_per_second:,.0f}"
        self._bar.set_postfix(shown)

    def _say(self, progress: Progress) -> None:
        if time.monotonic() < self._next_line:
            return
        self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES
        print(
            f"{progress.name}: row {self._done:,} of {self._total:,}, "
            f"epoch {min(self._epochs, len(progress.accuracy) + 1)} of {self._epochs}"
            f"{_reached(progress)}",
            file=sys.stderr,
            flush=True,
        )

    def close(self) -> None:
        """Takes the bar away."""
        if self._bar is not None:
            self._bar.close()


def _reached(progress: Progress) -> str:
    return f", test accuracy {progress.accuracy[-1]:.4f}" if progress.accuracy else ""


def interrupted(contenders: Sequence[Progress]) -> list[str]:
    """Returns a line about the progress of each contender."""
    lines = []
    for progress in contenders:
        epochs = count(len(progress.accuracy), "epoch")
        lines.append(f"{progress.name}: interrupted after {epochs}{_reached(progress)}")
    return lines


def _measures(progress: Progress) -> list[str]:
    """Returns the columns about the test set."""
    if not progress.precision:
        return ["final test accuracy"]
    return [f"precision@{k}" for k in (1, 3, 5)]


def _table(rows: Sequence[Progress]) -> str:
    """Returns the contenders' results as aligned text."""
    cells = [
        ["", "samples/s", "spread", "epochs to target", "seconds to target", *_measures(rows[0])],
        *(
            [
                p.name,
                f"{p.samples_per_second:,.0f}",
                f"{p.spread:.0%}",
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


def _sentence(found: Ratio, stock: str) -> str:
    text = f"throughput: {found.median:.2f} times that of {stock}"
    if found.pairs < 2:
        return text
    return f"{text}, from {found.low:.2f} to {found.high:.2f} in half of {found.pairs} turns"


def report(
    arguments: argparse.Namespace,
    title: str,
    contenders: Sequence[Progress],
    doubts: Sequence[str],
    save: Callable[[Any], None],
) -> bool:
    """Prints what was found, and then saves it; false if a file could not be written.

    Args:
      title: of the picture.
      contenders: those that have trained an epoch are reported; stock TensorFlow comes first.
      doubts: sentences about the comparison.
      save: saves the model.
    """
    rows = [progress for progress in contenders if progress.accuracy]
    if rows:
        print(_table(rows))
    if len(rows) == 2:
        found = ratio(*rows)
        print(_sentence(found, rows[0].name))
        for doubt in doubts:
            print(doubt)
        title += f": {found.median:.2f} × {rows[0].name}"
        if doubts:  # "(machine busy)"
            title += f" ({', '.join(doubt.partition(':')[0] for doubt in doubts)})"
    sys.stdout.flush()
    fine = True
    if rows:
        fine &= outputs.write("plot", arguments.plot, lambda path: _plot(rows, title, path))
        fine &= outputs.write("numbers", arguments.json, lambda path: _write_numbers(rows, path))
    return fine & outputs.write("central model", arguments.save, save)


def _plot(rows: Sequence[Progress], title: str, path: Any) -> None:
    from tensorbow.cli.train import plots  # which takes a while to import

    plots.training(rows, title, path)


def _write_numbers(rows: Sequence[Progress], path: Any) -> None:
    numbers = [
        {
            "name": p.name,
            "target": p.target,
            "samples": p.samples,
            "seconds": p.seconds,
            "accuracy": p.accuracy,
            "turns": p.turns,
            **({"precision": p.precision} if p.precision else {}),
        }
        for p in rows
    ]
    path.write_text(json.dumps(numbers, indent=1) + "\n")
