"""Draws the charts of README and docs/ from benchmarks/results, as SVG files.

    python tools/charts.py [FOLDER]

tests/python/charts_test.py compares docs/charts with the output of this program.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
CHARTS = ROOT / "docs" / "charts"

STOCK = "tf.Session"
BLUE, ORANGE, GREY, GREEN, DARK = "#1f6fb2", "#e08214", "#a6a6a6", "#4d9221", "#333333"
WIDTH = 760

NAMES = {
    "logistic 32": "logistic regression, 32 rows",
    "MLP 3×512, Adam, 32": "dense 3 × 512, 32",
    "MLP 2×2048, 128": "dense 2 × 2,048, 128",
    "25 million parameters, Adam, 32": "25 million parameters, 32",
    "transformer block 16×64": "transformer block, 16",
    "embedding 50,000×64, Adam, 64": "embedding of 50,000, 64",
    "softmax 64×10,000, 64": "softmax over 10,000, 64",
    "softmax 64×100,000, 64": "softmax over 100,000, 64",
}


def results(name: str) -> dict[str, Any]:
    """Returns the measurements in benchmarks/results/NAME.json."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def network(name: str) -> str:
    """Returns a network's name on a chart, with the rows of a run."""
    return NAMES.get(name) or ", ".join(name.rsplit(" ", 1))


def ratio(speeds: dict[str, list[float]], contender: str) -> float:
    """Returns the median over the slices of a contender's speed, divided by the stock session's."""
    return median(a / b for a, b in zip(speeds[contender], speeds[STOCK]))


# ------------------------------------------------------------------------------- drawing


class Drawing:
    """An SVG file that grows by shapes; y points downwards, units are pixels."""

    def __init__(self, title: str, height: int) -> None:
        self._height = height
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            'font-family="DejaVu Sans, Verdana, sans-serif" font-size="13">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        ]
        self.text(16, 24, title, size=15, bold=True)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        anchor: str = "start",
        size: int = 13,
        bold: bool = False,
        colour: str = DARK,
    ) -> None:
        weight = ' font-weight="bold"' if bold else ""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
            f'{weight} fill="{colour}" stroke="#ffffff" stroke-width="3" paint-order="stroke">'
            f"{escape(text)}</text>"
        )

    def bar(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{height:.1f}" '
            f'fill="{colour}"/>'
        )

    def line(
        self, points: Sequence[tuple[float, float]], colour: str, width: float = 1, dash: str = ""
    ) -> None:
        at = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(
            f'<polyline points="{at}" fill="none" stroke="{colour}" '
            f'stroke-width="{width}"{dashes}/>'
        )

    def legend(self, x: float, y: float, entries: Sequence[tuple[str, str]], gap: float) -> None:
        for k, (name, colour) in enumerate(entries):
            self.bar(x + k * gap, y - 10, 12, 12, colour)
            self.text(x + k * gap + 18, y, name)

    def svg(self) -> str:
        return "\n".join([*self._parts, "</svg>\n"])


def bars(
    drawing: Drawing,
    rows: Sequence[tuple[str, Sequence[tuple[float, str, str]]]],
    top: float,
    height: float,
    gap: float,
    longest: float,
    left: float = 230,
    one: bool = True,
) -> None:
    """Draws groups of horizontal bars.

    Args:
      drawing: where to.
      rows: a name, and (value, label, colour) of each bar.
      top: y of the first group.
      height: of a bar.
      gap: between groups.
      longest: the value that takes the whole width.
      left: x of zero.
      one: whether to mark the value 1, which is the stock session's.
    """
    scale = (WIDTH - left - 70) / longest
    y = top
    labels = []
    for name, found in rows:
        drawing.text(left - 8, y + len(found) * height / 2 + 4.5, name, anchor="end")
        for value, label, colour in found:
            drawing.bar(left, y, value * scale, height - 2, colour)
            labels.append((left + value * scale + 5, y + height / 2 + 3.5, label))
            y += height
        y += gap
    if one:
        drawing.line([(left + scale, top - 5), (left + scale, y)], DARK, 1.2, "5 4")
    for x, at, label in labels:
        drawing.text(x, at, label, size=12)


class Panel:
    """Axes inside a drawing, for lines."""

    def __init__(
        self,
        drawing: Drawing,
        box: tuple[float, float, float, float],
        x: tuple[float, float],
        y: tuple[float, float],
    ) -> None:
        self._drawing, self._box, self._x, self._y = drawing, box, x, y
        left, top, width, height = box
        drawing.line([(left, top), (left, top + height), (left + width, top + height)], DARK, 1.2)

    def at(self, x: float, y: float) -> tuple[float, float]:
        left, top, width, height = self._box
        return (
            left + width * (x - self._x[0]) / (self._x[1] - self._x[0]),
            top + height * (1 - (y - self._y[0]) / (self._y[1] - self._y[0])),
        )

    def ticks(
        self, xs: Sequence[float], ys: Sequence[float], x_label: str, percent: str = ".0%"
    ) -> None:
        left, top, width, height = self._box
        for x in xs:
            self._drawing.text(
                self.at(x, 0)[0], top + height + 17, f"{x:,.0f}", anchor="middle", size=12
            )
        for y in ys:
            at = self.at(0, y)[1]
            self._drawing.line([(left, at), (left + width, at)], "#dddddd")
            self._drawing.text(left - 6, at + 4, format(y, percent), anchor="end", size=12)
        self._drawing.text(left + width / 2, top + height + 36, x_label, anchor="middle", size=12)

    def curve(self, points: Sequence[tuple[float, float]], colour: str, dash: str = "") -> None:
        low, high = self._y
        inside = [(x, y) for x, y in points if x <= self._x[1] and low <= y <= high]
        self._drawing.line([self.at(x, y) for x, y in inside], colour, 2.2, dash)


# -------------------------------------------------------------------------------- charts


def speed() -> str:
    """Draws every network of never_slower_vnni, the fastest first."""
    found = results("never_slower_vnni")["networks"]
    ratios = {n: ratio(row["samples_per_second"], "learners found") for n, row in found.items()}
    ordered = sorted(ratios.items(), key=lambda pair: -pair[1])
    drawing = Drawing(
        "Training speed, stock tf.Session = 1: same program, same rows of a run, 2 cores",
        70 + 19 * len(ordered),
    )
    rows = [(network(n), [(value, f"{value:.2f}×", BLUE)]) for n, value in ordered]
    bars(drawing, rows, top=48, height=17, gap=2, longest=max(ratios.values()))
    return drawing.svg()


def peers() -> str:
    """Draws TensorBow and other systems, ÷ the stock session."""
    found = results("peers")["networks"]
    colours = [
        ("TensorBow", BLUE),
        ("MirroredStrategy", GREY),
        ("PyTorch", ORANGE),
        ("JAX, jit", GREEN),
    ]
    rows = []
    for name, row in found.items():
        speeds = row["samples_per_second"]
        layouts = [c for c in speeds if c in ("PyTorch", "PyTorch, channels last")]
        torch = max(layouts, key=lambda c: median(speeds[c]))
        values = []
        for contender, colour in colours:
            value = ratio(speeds, torch if contender == "PyTorch" else contender)
            values.append((value, f"{value:.2f}", colour))
        rows.append((network(name), values))
    drawing = Drawing(
        "Training speed of other systems, stock tf.Session = 1: same rows of a run, 2 cores",
        92 + 62 * len(rows),
    )
    drawing.legend(190, 48, colours, 145)
    longest = max(value for _, values in rows for value, _, _ in values)
    bars(drawing, rows, top=66, height=13, gap=10, longest=longest)
    return drawing.svg()


WAYS = {
    "stock": ("tf.Session", GREY),
    "SSGD": ("averaged gradients (the default)", BLUE),
    "SMA": ("averaged models (SMA)", ORANGE),
}


def _chosen(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns the fastest tuned stock session, and two learners of 16 rows by each way."""
    tuned = [row for row in rows if row["tuned"] and row["averaged"]]
    stock = [row for row in tuned if row["recipe"]["way"] == "stock"]
    chosen = {"stock": min(stock, key=seconds)}
    for way in ("SSGD", "SMA"):
        recipe = {"way": way, "batch": 16, "momentum": 0.9, "learners": 2}
        (chosen[way],) = (row for row in tuned if row["recipe"] == recipe)
    return chosen


def seconds(row: dict[str, Any]) -> float:
    """Returns the seconds to the target accuracy."""
    return median(row["samples"]) / median(row["speeds"])


TARGETS = {
    "lenet": "LeNet, 99 % on MNIST",
    "resnet20": "ResNet-20, 50 % on a tenth of CIFAR-10",
}


def time_to_accuracy() -> str:
    """Draws seconds to a target accuracy, beside a stock session with oneDNN on."""
    drawing = Drawing("Seconds of training to a test accuracy, 2 cores without AVX512_VNNI", 274)
    top = 62
    for model, title in TARGETS.items():
        chosen = _chosen(results(f"time_to_accuracy_{model}")["rows"])
        name = {"lenet": "LeNet 32", "resnet20": "ResNet-20 32"}[model]
        speeds = results("never_slower")["networks"][name]["samples_per_second"]
        one_dnn = seconds(chosen["stock"]) / ratio(speeds, f"{STOCK}, oneDNN on")
        values = [
            ("tf.Session", seconds(chosen["stock"]), GREY),
            ("tf.Session, oneDNN on (estimated)", one_dnn, GREY),
            *((WAYS[way][0], seconds(chosen[way]), WAYS[way][1]) for way in ("SSGD", "SMA")),
        ]
        drawing.text(16, top - 6, title, bold=True)
        rows = [(label, [(value, f"{value:.0f} s", colour)]) for label, value, colour in values]
        longest = max(value for _, value, _ in values)
        bars(drawing, rows, top, 19, 2, longest, left=280, one=False)
        top += 112
    return drawing.svg()


def curve(row: dict[str, Any]) -> list[tuple[float, float]]:
    """Returns samples and test accuracy, the median over the seeds.

    A seed that has reached the target stops there, and counts with its last value.
    """
    at = max((samples for samples, _ in row["curves"]), key=len)
    found = []
    for k, samples in enumerate(at):
        values = [accuracies[min(k, len(accuracies) - 1)] for _, accuracies in row["curves"]]
        found.append((float(samples), median(values)))
    return found


def sma_curves() -> str:
    """Draws the test accuracy of LeNet by samples and by seconds."""
    chosen = _chosen(results("time_to_accuracy_lenet")["rows"])
    drawing = Drawing("LeNet on MNIST: test accuracy, each at its own tuned learning rate", 370)
    batch = chosen["stock"]["recipe"]["batch"]
    entries = [
        (f"tf.Session, batch {batch}", GREY),
        ("averaged gradients, 2 × 16", BLUE),
        ("SMA, 2 × 16", ORANGE),
    ]
    drawing.legend(62, 50, entries, 230)
    accuracies = (0.975, 0.9925)
    left = Panel(drawing, (62, 68, 300, 240), (12000, 60000), accuracies)
    right = Panel(drawing, (436, 68, 300, 240), (0, 60), accuracies)
    ticks = [0.975, 0.98, 0.985, 0.99]
    left.ticks([20000, 40000, 60000], ticks, "samples", ".1%")
    right.ticks([0, 20, 40, 60], ticks, "seconds of training", ".1%")
    for way, row in chosen.items():
        speed_ = median(row["speeds"])
        points = curve(row)
        left.curve(points, WAYS[way][1])
        right.curve([(samples / speed_, y) for samples, y in points], WAYS[way][1])
    return drawing.svg()


def batches() -> str:
    """Draws the samples that LeNet needs to its target, by rows of a batch and learners."""
    rows = [r for r in results("time_to_accuracy_lenet")["rows"] if r["tuned"] and r["averaged"]]
    drawing = Drawing("LeNet to 99 % on MNIST: samples needed, momentum 0.9", 255)
    found = []
    for way, batch, learners, name in (
        ("stock", 16, 1, "tf.Session, batch 16"),
        ("stock", 32, 1, "tf.Session, batch 32"),
        ("stock", 64, 1, "tf.Session, batch 64"),
        ("SSGD", 16, 2, "averaged gradients, 2 × 16"),
        ("SSGD", 8, 4, "averaged gradients, 4 × 8"),
        ("SMA", 16, 2, "SMA, 2 × 16"),
        ("SMA", 8, 2, "SMA, 2 × 8"),
    ):
        recipe = {"way": way, "batch": batch, "momentum": 0.9, "learners": learners}
        (row,) = (r for r in rows if r["recipe"] == recipe)
        samples = median(row["samples"])
        found.append((name, [(samples, f"{samples:,.0f}", WAYS[way][1])]))
    bars(drawing, found, 48, 22, 5, max(v[0][0] for _, v in found), one=False)
    return drawing.svg()


CHARTS_BY_NAME: dict[str, Callable[[], str]] = {
    "speed": speed,
    "peers": peers,
    "time_to_accuracy": time_to_accuracy,
    "sma_curves": sma_curves,
    "batches": batches,
}


def main() -> None:
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else CHARTS
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in CHARTS_BY_NAME.items():
        (folder / f"{name}.svg").write_text(draw())


if __name__ == "__main__":
    main()
