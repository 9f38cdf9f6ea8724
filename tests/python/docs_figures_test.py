"""The figures of the README and of docs/performance.md are those of benchmarks/results."""

import json
import pathlib
import re
import sys
from collections.abc import Callable
from statistics import median

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import charts  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"
PERFORMANCE = ROOT / "docs" / "performance.md"

Table = list[list[str]]

STOCK = "tf.Session"
ON = "tf.Session, oneDNN on"

# The names in tables of the networks in files.
NETWORKS = {
    "logistic 32": "logistic regression, 32",
    "MLP 3×512, Adam, 32": "dense 3 × 512 units, Adam, 32",
    "MLP 2×2048, 128": "dense 2 × 2,048 units, 128",
    "25 million parameters, Adam, 32": "25 million parameters, Adam, 32",
    "transformer block 16×64": "transformer block, 16 × 64",
    "embedding 50,000×64, Adam, 64": "embedding of 50,000 words, Adam, 64",
    "softmax 64×10,000, 64": "softmax over 10,000 classes, 64",
    "softmax 64×100,000, 64": "softmax over 100,000 classes, 64",
}
MODELS = {"logistic": "logistic regression", "lenet": "LeNet", "resnet20": "ResNet-20"}


def network(name: str) -> str:
    """Returns the name in tables; "LeNet 32" is "LeNet, 32"."""
    return NETWORKS.get(name) or re.sub(r" (\d+)$", r", \1", name)


def results(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text())


def ratio(speeds: dict, contender: str, base: str = STOCK) -> float:
    """Returns the median over the slices, as the benchmarks do."""
    return median(a / b for a, b in zip(speeds[contender], speeds[base]))


def measured(page: pathlib.Path) -> dict[str, Table]:
    """Returns the cells of each table after a marker, without its first row, by the marker's
    file."""
    found = re.findall(r"^<!-- measured:(\S+) -->\n((?:\|.*\n)+)", page.read_text(), re.M)
    return {file: _cells(lines) for file, lines in found}


def _cells(lines: str) -> Table:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines.splitlines()]
    return rows[2:]


# ------------------------------------------------- the tables, computed from the files


def throughput() -> Table:
    table = []
    for key, row in results("throughput")["rows"].items():
        model, batch = key.split(":")
        speeds = row["samples_per_s"]
        cells = [f"{MODELS[model]}, b={batch}", f"{median(speeds[STOCK]):,.0f}"]
        for contender in (
            f"{STOCK}, batch {2 * int(batch)}",
            "TensorBow, 2 learners, SMA",
            "TensorBow, 2 learners, S-SGD",
            "TensorBow, 2 learners, no averaging",
        ):
            cells.append(f"{median(speeds[contender]):,.0f} ({ratio(speeds, contender):.2f})")
        table.append(cells)
    return table


def gpu_throughput() -> Table:
    speeds = results("gpu_throughput")["rows"]["lenet:16"]["samples_per_s"]
    table = []
    for cell, contender in (
        (f"`{STOCK}`", STOCK),
        (f"`{STOCK}`, XLA", f"{STOCK}, XLA"),
        ("1 learner", "1 learner, graphs off"),
        *((f"{n} learners, SMA", f"{n} learners, SMA, graphs off") for n in (2, 4, 8)),
    ):
        table.append([cell, f"{median(speeds[contender]):,.0f}", f"{ratio(speeds, contender):.2f}"])
    return table


def never_slower() -> Table:
    table = []
    for name, row in results("never_slower")["networks"].items():
        speeds = row["samples_per_second"]
        found = "learners found"
        ratios = [ratio(speeds, ON), ratio(speeds, found), ratio(speeds, found, ON)]
        cells = [network(name), f"{median(speeds[STOCK]):,.0f}", *(f"{r:.2f}" for r in ratios)]
        table.append([*cells, str(row["learners"])])
    return table


def never_slower_vnni() -> Table:
    table = []
    for name, row in results("never_slower_vnni")["networks"].items():
        speeds = row["samples_per_second"]
        found, fixed = "learners found", ("one learner", "one learner a core")
        better = max(fixed, key=lambda kind: median(speeds[kind]))
        ratios = [ratio(speeds, kind) for kind in (*fixed, found)] + [ratio(speeds, found, better)]
        cells = [network(name), f"{median(speeds[STOCK]):,.0f}", *(f"{r:.2f}" for r in ratios)]
        table.append([*cells, str(row["learners"])])
    return table


def layout_changes() -> Table:
    return [
        [network(name), f"{found['settled']:.1f}", f"{found['lost']:.1f}", str(found["learners"])]
        for name, row in results("layout_changes")["networks"].items()
        for found in [row["finding"]]
    ]


def peers() -> Table:
    table = []
    for name, row in results("peers")["networks"].items():
        speeds = row["samples_per_second"]
        layouts = [c for c in speeds if c in ("PyTorch", "PyTorch, channels last")]
        torch = max(layouts, key=lambda c: median(speeds[c]))
        contenders = ("TensorBow", "MirroredStrategy", torch, "JAX, jit")
        table.append([network(name), *(f"{ratio(speeds, c):.2f}" for c in contenders)])
    return table


def keras_fit() -> Table:
    table = []
    for key, row in results("keras_fit")["rows"].items():
        model, rows = key.split(":")
        speeds = row["samples_per_s"]
        stock = [c for c in speeds if c.startswith("Keras fit")]
        best = max(stock, key=lambda c: median(speeds[c]))
        cells = [f"{MODELS[model]}, {rows}"]
        for contender in ("TensorBow fit, 2 learners", "TensorBow fit, 2 learners, S-SGD"):
            ratios = (ratio(speeds, contender, base) for base in ("Keras fit", best))
            cells.append(" · ".join(f"{r:.2f}" for r in ratios))
        table.append(cells)
    return table


def memory() -> Table:
    table = []
    for optimiser, rows in results("memory")["rows"].items():
        for name in (STOCK, "SSGD", "SMA", "SMA, lagging centre", "Independent"):
            row = rows[name]
            bytes_ = [
                median(row[what]) / row["parameters"] for what in ("resident", "first", "later")
            ]
            table.append(
                [
                    {"sgd": "gradient descent", "adam": "Adam"}[optimiser],
                    f"`{name}`" if name == STOCK else name,
                    *(f"{b:.1f}" for b in bytes_),
                ]
            )
    return table


def long_run() -> Table:
    table = []
    for optimiser, row in results("long_run")["rows"].items():
        late = {c: speeds[12:] for c, speeds in row["samples_per_s"].items()}  # of 100 steps each
        contenders = ("SSGD", "SMA", "SMA, lagging centre", "Independent")
        title = {"adam": "Adam", "momentum": "momentum"}[optimiser]
        table.append([title, *(f"{ratio(late, c):.2f}" for c in contenders)])
    return table


def time_to_accuracy() -> Table:
    table = []
    for model, title in (
        ("lenet", "LeNet, 99 % on MNIST"),
        ("resnet20", "ResNet-20, 50 % on 5,000 images of CIFAR-10"),
    ):
        rows = results(f"time_to_accuracy_{model}")["rows"]
        stock = [row for row in rows if row["recipe"]["way"] == "stock"]
        best = min(stock, key=_seconds)
        one_dnn = ratio(
            results("never_slower")["networks"][f"{MODELS[model]} 32"]["samples_per_second"], ON
        )
        learners = [_learners(rows, way) for way in ("SMA", "SSGD")]
        seconds = [_seconds(row) / _seconds(best) for row in learners]
        samples = [median(row["samples"]) / median(best["samples"]) for row in learners]
        table += [
            [f"{title}: seconds", *(f"{s:.2f}" for s in seconds)],
            [f"{title}: samples", *(f"{s:.2f}" for s in samples)],
            [f"{title}: seconds, oneDNN on", *(f"{one_dnn * s:.2f}" for s in seconds)],
        ]
    return table


def _learners(rows: list[dict], way: str) -> dict:
    """Returns the row of two learners with batches of 16, at the tuned rate."""
    recipe = {"way": way, "batch": 16, "momentum": 0.9, "learners": 2}
    (row,) = (row for row in rows if row["recipe"] == recipe and row["tuned"] and row["averaged"])
    return row


def _seconds(row: dict) -> float:
    return median(row["samples"]) / median(row["speeds"])


TABLES: dict[str, Callable[[], Table]] = {
    "throughput": throughput,
    "gpu_throughput": gpu_throughput,
    "never_slower": never_slower,
    "never_slower_vnni": never_slower_vnni,
    "layout_changes": layout_changes,
    "peers": peers,
    "keras_fit": keras_fit,
    "memory": memory,
    "long_run": long_run,
    "time_to_accuracy_lenet": time_to_accuracy,
}


@pytest.mark.parametrize("name", TABLES)
def test_table_is_what_was_measured(name):
    table = measured(PERFORMANCE)[f"benchmarks/results/{name}.json"]
    assert table == TABLES[name]()


@pytest.mark.parametrize("name", charts.CHARTS_BY_NAME)
def test_chart_is_what_was_measured(name):
    assert (charts.CHARTS / f"{name}.svg").read_text() == charts.CHARTS_BY_NAME[name]()


def test_all_charts_are_shown():
    pages = [README, *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text() for page in pages)
    files = {path.stem for path in charts.CHARTS.iterdir()}
    assert files == set(charts.CHARTS_BY_NAME)
    assert [name for name in files if f"charts/{name}.svg)" not in text] == []


@pytest.mark.parametrize("page", [README, PERFORMANCE], ids=lambda page: page.stem)
def test_the_chart_of_speed_is_described(page):
    ratios = sorted(float(row[4]) for row in never_slower_vnni())
    said = f"Speed of {len(ratios)} networks on two cores, divided by that of a stock session: "
    assert f"![{said}from {ratios[0]:.2f} to {ratios[-1]:.2f}]" in page.read_text()


def test_the_readme_says_what_is_slower():
    found = [float(row[4]) for row in never_slower()]
    slower = sorted(ratio for ratio in found if ratio < 1)
    figures = " and ".join(f"{ratio:.2f}×" for ratio in slower)
    said = f"{len(slower)} of {len(found)} networks are slower ({figures}, "
    assert said in " ".join(README.read_text().split())
    assert all(float(row[4]) >= 1 for row in never_slower_vnni())


def test_what_one_learner_gains_is_said():
    one = {row[0]: row[2] for row in never_slower_vnni()}
    fastest = one["logistic regression, 32"], one["embedding of 50,000 words, Adam, 64"]
    said = "(logistic regression {}×, the embedding {}×)".format(*fastest)
    assert said in " ".join(PERFORMANCE.read_text().split())


def test_the_guide_of_small_batches_says_where_they_win():
    page = " ".join((ROOT / "docs" / "guides" / "small-batches.md").read_text().split())
    for name, title in (
        ("lenet", "slower: {} s against {} s"),
        ("resnet20", "the same within the spread: {} s against {} s"),
    ):
        rows = results(f"time_to_accuracy_{name}")["rows"]
        found = (f"{_seconds(_learners(rows, way)):.0f}" for way in ("SMA", "SSGD"))
        assert title.format(*found) in page
    lenet = time_to_accuracy()[0][1:]
    assert f"take {lenet[1]} and SMA {lenet[0]} of the stock session's seconds" in page
    speeds = {}
    for name, way, speed in re.findall(
        r"^\| (LeNet|ResNet-20|logistic regression)\S*(?: [^|]*)?(SMA|S-SGD) \| ([\d,]+) \|",
        (ROOT / "docs" / "hosts.md").read_text(),
        re.M,
    ):
        speeds[name, way] = int(speed.replace(",", ""))
    gains = {name: speeds[name, "SMA"] / speeds[name, "S-SGD"] for name, _ in speeds}
    assert (
        f"{gains['LeNet']:.2f}× the samples/s for LeNet, {gains['ResNet-20']:.2f}× for ResNet-20, "
        f"{gains['logistic regression']:.2f}× for logistic regression"
    ) in page
    table = (RESULTS / "adaptive.md").read_text()
    rows = {w: re.findall(rf"^\| {w} \|.*$", table, re.M)[0].split("|") for w in ("SMA", "SSGD")}
    for column, said in ((3, "{} s against {} s; one core"), (5, "slower: {} s against {} s (")):
        seconds = (rows[way][column].split()[0] for way in ("SMA", "SSGD"))
        assert said.format(*seconds) in page


def test_all_tables_with_figures_are_checked():
    text = PERFORMANCE.read_text()
    tables = re.findall(r"(?:^\|.*\n)+", text, re.M)
    assert len(tables) == len(measured(PERFORMANCE)) == len(TABLES)


def test_drop_in_cases_are_counted():
    lines = (RESULTS / "drop_in.md").read_text().splitlines()
    verdicts = [line.split("|")[-2] for line in lines if " | default | " in line]
    within = [sum(f"{learners}: within" in v for v in verdicts) for learners in (2, 4)]
    text = " ".join(PERFORMANCE.read_text().split())
    counted = f"{within[0]} of {len(verdicts)} cases with two learners, and in {within[1]} of"
    assert counted in text


def test_every_section_with_figures_names_its_file():
    sections = re.split(r"^## ", PERFORMANCE.read_text(), flags=re.M)[1:]
    assert [s.splitlines()[0] for s in sections if "benchmarks/results/" not in s] == []


def test_keras_accuracy_is_not_below_stock():
    text = (RESULTS / "keras_accuracy.md").read_text()
    assert len(re.findall(r"its mean is below stock's worst seed after 0 of 4 epochs", text)) == 2
