"""The benchmark of learners of different speed, on a few rows made by hand."""

import gzip
import json
import os
import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))

import adaptive
import adaptive_hosts
import adaptive_momentum


def write(path, rows, seed):
    """Writes rows whose first feature is the label."""
    rng = np.random.default_rng(seed)
    with gzip.open(path, "wt") as file:
        for _ in range(rows):
            label = rng.integers(4)
            features = sorted({int(label) + 1, *rng.integers(5, adaptive.FEATURES, size=3)})
            second = ",100" if label == 3 else ""
            file.write(f"{label}{second} " + " ".join(f"{f}:1" for f in features) + "\n")


def test_rows_are_read_as_they_are_written(tmp_path):
    path = tmp_path / "rows.gz"
    with gzip.open(path, "wt") as file:
        file.write("3,7 1:1 5:0.5\n0 2:2\n")
    rows = adaptive.Rows(path)
    value, targets = rows.take(np.array([1, 0]))
    assert value.indices.tolist() == [[0, 1], [1, 0], [1, 4]]
    assert value.values.tolist() == [2, 1, 0.5]
    assert value.dense_shape == (2, adaptive.FEATURES)
    assert targets[0].nonzero()[0].tolist() == [0]
    assert targets[1, [3, 7]].tolist() == [0.5, 0.5] and targets[1].sum() == 1


def test_every_contender_is_measured_and_what_is_not_reached_is_said(tmp_path, monkeypatch):
    for part, rows in (("train", 256), ("test", 64)):
        write(tmp_path / f"bibtex_{part}.libsvm.gz", rows, seed=rows)
    arguments = ["--data", tmp_path, "--results", tmp_path, "--rates", 0.01, "--seeds", 1]
    monkeypatch.setattr(
        sys, "argv", ["adaptive", *map(str, arguments), "--slowed", "2", "--epochs", "2"]
    )
    adaptive.main()
    report = json.loads((tmp_path / "adaptive.json").read_text())
    names = list(adaptive.synchronisers(100))
    assert [row["contender"] for row in report["rows"]] == names * 2
    assert [row["threads"] for row in report["rows"][:: len(names)]] == [None, [2, 1]]
    text = (tmp_path / "adaptive.md").read_text()
    for row in report["rows"]:
        (run,) = row["runs"]
        assert 0.2 < run["best"] <= 1 and run["rows"] <= 2 * 256
        assert (run["seconds"] is None) == (run["best"] < 0.6)
        assert f"| {row['contender']} | 0.01 |" in text
    assert "| 2× | threads 2 and 1 |" in text


def test_momenta_are_compared_at_their_best_rates(tmp_path, monkeypatch):
    for part, rows in (("train", 256), ("test", 64)):
        write(tmp_path / f"bibtex_{part}.libsvm.gz", rows, seed=rows)
    arguments = ["--data", tmp_path, "--results", tmp_path, "--rates", 1e-6, 0.01, "--seeds", 1]
    arguments += ["--epochs", 3, "--momenta", 0, 0.5, "--mega-batches", 128, "--goal", 0.3]
    monkeypatch.setattr(sys, "argv", ["adaptive_momentum", *map(str, arguments)])
    adaptive_momentum.main()
    report = json.loads((tmp_path / "adaptive_momentum.json").read_text())
    assert [(row["momentum"], row["mega_batch"]) for row in report["rows"]] == [
        (0, 128),
        (0.5, 128),
    ]
    text = (tmp_path / "adaptive_momentum.md").read_text()
    assert "| momentum | rows between merges | 1e-06 | 0.01 |" in text
    for row in report["rows"]:
        slow, fast = row["by_rate"]["1e-06"], row["by_rate"]["0.01"]
        assert slow[0]["seconds"] is None and fast[0]["seconds"] > 0
        cells = f"{adaptive_momentum.cell(slow)} | {adaptive_momentum.cell(fast)}"
        assert f"| {row['momentum']:g} | 128 | {cells} |" in text


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a core for each of two hosts")
def test_hosts_of_different_speed_are_measured(tmp_path, monkeypatch, warm_python):
    for part, rows in (("train", 256), ("test", 64)):
        write(tmp_path / f"bibtex_{part}.libsvm.gz", rows, seed=rows)
    arguments = ["--data", tmp_path, "--results", tmp_path, "--rates", 0.01, "--seeds", 1]
    arguments += ["--slowed", 1, "--seconds", 0.5, "--run", 64, "--mega-batch", 256]
    arguments += ["--goal", 0.3, "--only", "SSGD", "AdaptiveSGD"]
    monkeypatch.setattr(sys, "argv", ["adaptive_hosts", *map(str, arguments)])
    adaptive_hosts.main()
    report = json.loads((tmp_path / "adaptive_hosts.json").read_text())
    assert [run["contender"] for run in report["runs"]] == ["SSGD", "AdaptiveSGD"]
    text = (tmp_path / "adaptive_hosts.md").read_text()
    for run in report["runs"]:
        assert run["samples_per_second"] > 0 and 0.3 <= run["best"] <= 1
        assert 0 < run["seconds"] < 60
        assert f"| {run['contender']} | 0.01 | {run['seconds']:.2f} " in text
    (rows,) = report["runs"][1]["rows"]
    assert sum(rows) == 256 and f"AdaptiveSGD, 1×: {rows[0]} and {rows[1]}; batches of" in text
