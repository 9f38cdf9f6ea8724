"""Pictures of how training went."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np

from tensorbow.cli.train.turns import Progress


def training(rows: Sequence[Progress], title: str, path: pathlib.Path) -> None:
    """Saves test accuracy over time and over samples, and throughput by contender.

    Args:
      rows: the contenders, whose names say how many learners they have.
      title: of the picture.
      path: of the file; its suffix chooses the format.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (over_time, over_samples, speed) = plt.subplots(1, 3, figsize=(15, 4.6))
    over_samples.sharey(over_time)
    for k, p in enumerate(rows):
        colour = f"C{k}"
        over_time.plot(p.seconds, p.accuracy, marker="o", color=colour, label=p.name)
        over_samples.plot(p.samples, p.accuracy, marker="o", color=colour)
        speed.bar(k, p.samples_per_second, 0.6, color=colour, alpha=0.5)
        # Every turn is a dot, beside the others of its contender.
        places = k + np.linspace(-0.2, 0.2, len(p.turns)) if len(p.turns) > 1 else [k]
        speed.plot(places, p.rates, ".", color=colour, markersize=5)
        median = f"{p.samples_per_second:,.0f}"
        above = (k, 1.08 * float(p.rates.max()))
        speed.annotate(median, above, ha="center", weight="bold")
    what = "precision@1 on the test set" if rows[0].precision else "test accuracy"
    for axes in (over_time, over_samples):
        axes.axhline(rows[0].target, color="grey", linestyle=":")
    over_time.set_ylabel(f"{what} (dotted: the target)")
    over_time.set_xlabel("training time [s]")
    over_samples.set_xlabel("training samples")
    over_samples.xaxis.set_major_formatter("{x:,.0f}")
    speed.set_ylabel("samples per second (bar: median, dots: turns)")
    speed.yaxis.set_major_formatter("{x:,.0f}")
    speed.set_xticks(range(len(rows)), [p.name for p in rows])
    speed.set_xlim(-0.7, len(rows) - 0.3)
    speed.set_ylim(0, 1.2 * max(float(p.rates.max()) for p in rows))
    for axes in (over_time, over_samples, speed):
        axes.grid(alpha=0.3)
    figure.suptitle(title)
    figure.legend(loc="lower center", ncols=len(rows), frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(path, dpi=120)
    plt.close(figure)
