"""Pictures of how training went."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np

from tensorbow.training import Progress


def training(rows: Sequence[Progress], title: str, path: pathlib.Path) -> None:
    """Saves test accuracy over time and over samples, and throughput over time.

    Args:
      rows: the contenders, whose names say how many learners they have.
      title: of the picture.
      path: of the file; its suffix chooses the format.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (over_time, over_samples, speed) = plt.subplots(1, 3, figsize=(15, 4.4))
    over_samples.sharey(over_time)
    speed.sharex(over_time)
    for p in rows:
        label = f"{p.name}: {p.samples_per_second:,.0f} samples/s"
        over_time.plot(p.seconds, p.accuracy, marker="o", label=label)
        over_samples.plot([s / 1000 for s in p.samples], p.accuracy, marker="o")
        # An epoch's throughput, from its beginning to its end.
        rates = np.diff([0, *p.samples]) / np.diff([0, *p.seconds])
        speed.stairs(rates, [0, *p.seconds], baseline=None, linewidth=2)
    for axes in (over_time, over_samples):
        axes.axhline(rows[0].target, color="grey", linestyle=":")
        what = "precision@1 on the test set" if rows[0].precision else "test accuracy"
        axes.set_ylabel(f"{what} (dotted: the target)")
    over_time.set_xlabel("training time [s]")
    over_samples.set_xlabel("training samples [thousands]")
    speed.set_xlabel("training time [s]")
    speed.set_ylabel("samples per second, by epoch")
    speed.set_ylim(bottom=0)
    for axes in (over_time, over_samples, speed):
        axes.grid(alpha=0.3)
    figure.suptitle(title)
    figure.legend(loc="lower center", ncols=len(rows), frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(path, dpi=120)
    plt.close(figure)
