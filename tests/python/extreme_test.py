"""`tensorbow train --model xml`: rows with several of many labels each."""

import gzip
import json
import re

import numpy as np
import pytest
import tensorflow as tf

import tensorbow
from tensorbow import cli
from tensorbow.cli.train import extreme
from tensorbow.data._libsvm import Rows

tf1 = tf.compat.v1


def write(path, rows, seed=0, header=False):
    """Writes rows whose first features are their labels' numbers: two labels of twelve."""
    rng = np.random.default_rng(seed)
    lines = [f"{rows} 40 12"] if header else []
    for _ in range(rows):
        labels = np.sort(rng.choice(12, 2, replace=False))
        features = sorted({*(int(n) for n in labels), *rng.integers(12, 40, 3)})
        first = 0 if header else 1
        lines.append(f"{labels[0]},{labels[1]} " + " ".join(f"{f + first}:1" for f in features))
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    return path


@pytest.fixture
def files(tmp_path):
    return write(tmp_path / "train.gz", 600), write(tmp_path / "test.gz", 100, seed=1)


def train(files, *flags):
    arguments = ["train", "--model", "xml", "--data", files[0], "--test", files[1]]
    return cli.main([str(a) for a in [*arguments, "--learners", 2, *flags]])


def test_it_trains_beside_stock_and_shows_three_precisions(files, tmp_path, capsys):
    numbers, plot, model = tmp_path / "n.json", tmp_path / "plot.png", tmp_path / "model"
    flags = ["--compare", "stock", "--json", numbers, "--plot", plot, "--save", model]
    assert train(files, *flags, "--epochs", 5, "--learning-rate", 0.02, "--batch-size", 16) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "xml on train.gz: 600 training and 100 test rows of 40 features, 12 labels; adam, learning "
        "rate 0.02, 16 rows a step, 2 learners; target accuracy 0.62"
    )
    assert re.split(r"\s{2,}", lines[1].strip())[-3:] == [f"precision@{k}" for k in (1, 3, 5)]
    results = json.loads(numbers.read_text())
    assert [r["name"][:6] for r in results] == ["stock ", "Tensor"]
    for line, result in zip(lines[3:5], results):
        assert result["samples"] == [600 * epoch for epoch in range(1, 6)]
        assert len(result["precision"]) == 5
        assert result["accuracy"] == [first for first, _, _ in result["precision"]]
        assert result["accuracy"][-1] > 0.9
        # Two of the five best can be true.
        assert 0.3 < result["precision"][-1][2] <= 0.4
        assert re.split(r"\s{2,}", line)[-3:] == [f"{p:.4f}" for p in result["precision"][-1]]
    assert plot.stat().st_size > 1000
    data = extreme.load(*files)
    program = extreme.build(40, 12, lambda: tf1.train.GradientDescentOptimizer(1.0))
    with tf1.Session(graph=program.graph) as session:
        with program.graph.as_default():
            tf1.train.Saver(tf1.trainable_variables()).restore(session, str(model))
        assert extreme.precision(session, program, data.test) == pytest.approx(
            results[1]["precision"][-1]
        )


def test_precision_is_the_part_of_the_best_labels_that_is_true():
    class Guesses:
        def run(self, top, feeds):
            assert list(feeds) == [program.x]
            return np.array([[4, 2, 0, 1, 3], [5, 4, 3, 2, 1]])

    # The first row has labels 4 and 0, the second one 1.
    rows = Rows(
        np.array([0, 0, 0]), np.zeros(0), np.zeros(0), np.array([0, 2, 3]), np.array([0, 4, 1])
    )
    program = extreme.build(7, 6, lambda: tf1.train.GradientDescentOptimizer(1.0))
    found = extreme.precision(Guesses(), program, rows)
    assert found == pytest.approx([1 / 2, 2 / 6, 3 / 10])


def test_the_loss_is_the_cross_entropy_with_equal_targets_for_the_true_labels():
    program = extreme.build(5, 4, lambda: tf1.train.GradientDescentOptimizer(1.0), seed=3, hidden=6)
    x = np.float32([[0, 1, 0, 2, 0], [3, 0, 0, 0, 0]])
    rows = Rows(
        np.array([0, 2, 3]),
        np.array([1, 3, 0]),
        np.float32([1, 2, 3]),
        np.array([0, 1, 4]),
        np.array([2, 0, 1, 3]),
    )
    targets = np.array([[0, 0, 1, 0], [1 / 3, 1 / 3, 0, 1 / 3]])
    with tf1.Session(graph=program.graph) as session, program.graph.as_default():
        session.run(program.init)
        w, b, v, c = session.run(tf1.trainable_variables())
        logits = np.maximum(x @ w + b, 0) @ v + c
        probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        expected = -(targets * np.log(probabilities)).sum(1).mean()
        loss = session.run(program.loss, program.feeds(rows))
        assert loss == pytest.approx(expected, rel=1e-5)
        with_dropout = {program.dropout: 0.9} | program.feeds(rows)
        assert session.run(program.loss, with_dropout) != loss


@pytest.mark.parametrize("header", [True, False])
def test_files_say_by_themselves_or_in_a_header_what_there_is(header, tmp_path):
    paths = (
        write(tmp_path / "a", 3, header=header),
        write(tmp_path / "b", 80, seed=1, header=header),
    )
    data = extreme.load(*paths)
    assert (data.features, data.labels, len(data.train), len(data.test)) == (40, 12, 3, 80)
    assert data.train.columns.max() < 40 and data.train.columns.min() >= 0


@pytest.mark.parametrize("name", ["auto", "sma", "ssgd", "easgd", "adaptive"])
def test_synchronisers_can_be_chosen(name, files, monkeypatch):
    chosen = []

    class Session(tensorbow.TensorBowSession):
        def close(self):
            if not chosen:
                chosen.append(self.synchroniser)
                records = self.adaptive
                chosen.append(sum(records[-1].rows) if records else None)
            super().close()

    monkeypatch.setattr(tensorbow, "TensorBowSession", Session)
    assert train(files, "--synchroniser", name, "--epochs", 1) == 0
    wanted = {"auto": "SSGD", "sma": "SMA", "ssgd": "SSGD", "adaptive": "AdaptiveSGD"}
    if name == "easgd":
        assert chosen[0] == tensorbow.EASGD()
    else:
        assert type(chosen[0]).__name__ == wanted[name]
    # Half of the training set, as it has less than 200 batches.
    assert chosen[1] == (300 if name == "adaptive" else None)


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--model", "lenet", "--dropout", 0.1], "--dropout is for --model xml, got --model lenet"),
        (["--model", "lenet", "--test", "x"], "--test is for --model xml, got --model lenet"),
        (["--model", "xml"], "--model xml needs --data FILE and --test FILE"),
        (["--model", "xml", "--data", "x"], "--model xml needs --data FILE and --test FILE"),
        (
            ["--model", "xml", "--data", "none", "--test", "none"],
            "--data none: there is no such file",
        ),
        (["--dropout", 1], "--dropout must be at least 0 and less than 1, got 1"),
        (["--dropout", "nan"], "--dropout must be at least 0 and less than 1, got nan"),
        (["--synchroniser", "fast"], "invalid choice: 'fast'"),
        (
            ["--model", "xml", "--data", "x", "--test", "x", "--frontend", "keras"],
            "--model xml is for sessions; leave out --frontend keras",
        ),
        (
            ["--synchroniser", "adaptive", "--frontend", "keras"],
            "--synchroniser adaptive is for sessions",
        ),
    ],
)
def test_wrong_flags_are_refused(flags, message, capsys):
    with pytest.raises(SystemExit):
        cli.main(["train", *map(str, flags)])
    assert message in capsys.readouterr().err


def test_files_that_are_none_are_refused_with_the_line(files, tmp_path, capsys):
    broken, empty = tmp_path / "broken", tmp_path / "empty"
    broken.write_text("1 1:1\n1 2;1\n")
    empty.write_text("")
    for path, message in ((broken, "line 2: got '2;1'"), (empty, "has no rows")):
        with pytest.raises(SystemExit):
            train((files[0], path))
        assert message in capsys.readouterr().err
