"""The `tensorbow` command: what it trains, prints, saves and refuses."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import tensorbow
from tensorbow import _report, cli, datasets, models, training

tf1 = tf.compat.v1


@pytest.fixture(scope="module")
def digits_file(digits, tmp_path_factory):
    """The digits in MNIST's layout, split as `datasets.digits` splits them."""
    images, labels = digits
    test = np.arange(len(images)) % 5 == 0
    path = tmp_path_factory.mktemp("data") / "digits.npz"
    np.savez(
        path,
        x_train=np.rint(images[~test, ..., 0] * 255).astype(np.uint8),
        y_train=labels[~test],
        x_test=np.rint(images[test, ..., 0] * 255).astype(np.uint8),
        y_test=labels[test],
    )
    return path


def train(data, *flags, epochs=1, rate=0.1):
    """Runs `tensorbow train --model logistic` on two learners."""
    arguments = ["train", "--model", "logistic", "--data", data, "--learners", 2]
    arguments += ["--epochs", epochs, "--learning-rate", rate, *flags]
    assert cli.main([str(a) for a in arguments]) == 0


def accuracies(data, path, *flags, **settings):
    """The test accuracies by epoch of such a run."""
    train(data, "--json", path, *flags, **settings)
    (numbers,) = json.loads(path.read_text())
    return numbers["accuracy"]


def refusal(capsys, *arguments):
    """What the command says when it refuses its arguments."""
    with pytest.raises(SystemExit) as error:
        cli.main([str(a) for a in arguments])
    assert error.value.code == 2
    return capsys.readouterr().err


def test_train_compares_with_stock_and_saves_all_it_found(digits_file, tmp_path, capsys):
    plot, numbers, model = tmp_path / "plot.png", tmp_path / "numbers.json", tmp_path / "model"
    flags = ("--compare", "stock", "--plot", plot, "--json", numbers, "--save", model)
    train(digits_file, *flags, epochs=3)
    output = capsys.readouterr().out
    stock, ours = json.loads(numbers.read_text())

    assert stock["name"] == "stock TensorFlow, batch 16"
    assert ours["name"] == "TensorBow, 2 learners x batch 16"
    for contender in (stock, ours):
        assert contender["target"] == 0.9
        assert contender["samples"] == [1437, 2 * 1437, 3 * 1437]
        assert np.all(np.diff([0, *contender["seconds"]]) > 0)
        assert 0.85 < contender["accuracy"][-1] <= 1

    # The table shows the same numbers.
    lines = output.splitlines()
    assert lines[0] == (
        "logistic on digits.npz: 1437 training and 360 test images of 8x8x1; momentum, learning "
        "rate 0.1, 16 rows a batch, 2 learners; target accuracy 0.9"
    )
    assert lines[1] == f"saved the central model as {model}"
    columns = ["samples/s", "epochs to target", "seconds to target", "final test accuracy"]
    assert re.split(r"\s{2,}", lines[2].strip()) == columns
    for line, contender in zip(lines[4:6], (stock, ours)):
        name, speed, epochs, seconds, accuracy = re.split(r"\s{2,}", line)
        assert name == contender["name"]
        assert speed == f"{contender['samples'][-1] / contender['seconds'][-1]:,.0f}"
        reached = [k for k, value in enumerate(contender["accuracy"]) if value >= 0.9]
        assert epochs == (str(reached[0] + 1) if reached else "not reached")
        assert seconds == (f"{contender['seconds'][reached[0]]:.2f}" if reached else "not reached")
        assert accuracy == f"{contender['accuracy'][-1]:.4f}"
    ratio = stock["seconds"][-1] / ours["seconds"][-1]
    assert f"throughput: {ratio:.2f} times stock TensorFlow's" in lines

    # The plot is a picture with something in it.
    from matplotlib import image

    assert len(np.unique(image.imread(plot).reshape(-1, 4), axis=0)) > 10

    # The checkpoint is the model whose accuracy was printed, for stock TensorFlow too.
    data = datasets.from_file(digits_file)
    program = models.build("logistic", data.image_shape, data.classes)
    with tf1.Session(graph=program.graph) as session:
        with program.graph.as_default():
            tf1.train.Saver(tf1.trainable_variables()).restore(session, str(model))
        found = training.accuracy(session, program, data.x_test, data.y_test)
    assert found == pytest.approx(ours["accuracy"][-1], abs=1e-6)


def test_digits_are_the_data_where_mnist_cannot_be_had(monkeypatch, capsys):
    monkeypatch.setattr(datasets, "mnist", lambda: None)
    assert cli.main(["train", "--model", "logistic", "--epochs", "1"]) == 0
    assert "scikit-learn's digits: 1437 training and 360 test" in capsys.readouterr().out


@pytest.mark.parametrize(
    "model, optimiser, rows, least",
    [("lenet", "adam", 1437, 0.5), ("logistic", "sgd", 1437, 0.5), ("resnet20", "momentum", 48, 0)],
)
def test_every_kind_of_model_trains(digits_file, tmp_path, model, optimiser, rows, least):
    with np.load(digits_file) as file:
        arrays = {name: file[name][:rows] for name in file}
    np.savez(tmp_path / "some.npz", **arrays)
    rate = {"adam": 0.002, "sgd": 0.1, "momentum": 0.02}[optimiser]
    flags = ("--model", model, "--optimiser", optimiser)
    (accuracy,) = accuracies(tmp_path / "some.npz", tmp_path / "n.json", *flags, rate=rate)
    assert least <= accuracy <= 1


def test_target_that_is_reached_and_target_that_is_not(digits_file, capsys):
    train(digits_file, "--target", 0)
    assert re.search(r"batch 16 +[\d,]+ +1 +\d\.\d\d +0\.\d{4}$", capsys.readouterr().out, re.M)
    train(digits_file, "--target", 1)
    assert re.search(r" not reached +not reached ", capsys.readouterr().out)


def test_learning_rate_drops_before_the_epochs_given(digits_file, tmp_path):
    path = tmp_path / "numbers.json"
    flat = accuracies(digits_file, path, epochs=2)
    assert accuracies(digits_file, path, "--drop-at", 1, epochs=2) == accuracies(
        digits_file, path, epochs=2, rate=0.01
    )
    late = accuracies(digits_file, path, "--drop-at", 2, epochs=2)
    assert late[0] == flat[0]
    assert late[1] != flat[1]


def test_seed_decides_the_run(digits_file, tmp_path):
    path = tmp_path / "numbers.json"
    first, again, other = (accuracies(digits_file, path, "--seed", k) for k in (1, 1, 2))
    assert first == again
    assert first != other


def test_progress_bar_names_the_contender(digits_file, monkeypatch, capsys):
    train(digits_file)
    assert "TensorBow" not in capsys.readouterr().err
    monkeypatch.setenv("TENSORBOW_PROGRESS", "1")
    monkeypatch.setattr(_report, "SECONDS_BETWEEN_METRICS", 0.0)
    train(digits_file, epochs=2)
    text = capsys.readouterr().err
    assert "TensorBow, 2 learners x batch 16" in text
    assert re.search(r"epoch=2, accuracy=0\.\d{4}, learners=2, samples/s=[1-9][\d,]*", text)


def test_trains_without_tqdm(digits_file, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    train(digits_file)
    assert "final test accuracy" in capsys.readouterr().out


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--model", "vgg"], "invalid choice: 'vgg'"),
        (["--optimiser", "lars"], "invalid choice: 'lars'"),
        (["--compare", "keras"], "invalid choice: 'keras'"),
        (["--learners", "0"], "--learners must be greater than 0, got 0"),
        (["--learners", "two"], "invalid int value: 'two'"),
        (["--learners", "5000"], "from 1 to 1024, got 5000"),
        (["--batch-size", "-1"], "--batch-size must be greater than 0, got -1"),
        (["--epochs", "0"], "--epochs must be greater than 0, got 0"),
        (["--learning-rate", "0"], "--learning-rate must be greater than 0, got 0"),
        (["--learning-rate", "nan"], "--learning-rate must be greater than 0, got nan"),
        (["--target", "95"], "--target must be an accuracy from 0 to 1, got 95"),
        (["--seed", "-1"], "--seed must be at least 0, got -1"),
        (["--plot", "nowhere/plot.png"], "--plot nowhere/plot.png: there is no directory"),
        (["--json", "nowhere/n.json"], "--json nowhere/n.json: there is no directory"),
        (["--save", "nowhere/model"], "--save nowhere/model: there is no directory"),
        (["--layers", "3"], "unrecognized arguments: --layers 3"),
    ],
)
def test_wrong_flags_are_refused_before_training(flags, message, digits_file, capsys):
    assert message in refusal(capsys, "train", "--data", digits_file, *flags)


def test_command_is_required(capsys):
    assert "arguments are required: command" in refusal(capsys)
    assert "invalid choice: 'test'" in refusal(capsys, "test")


@pytest.mark.parametrize(
    "arrays, message",
    [
        (dict(a=np.zeros(3)), "holds a; wanted x_train, y_train, x_test, y_test"),
        (dict(x_train=np.zeros((4, 3))), "x_train has shape (4, 3) and y_train (4,); wanted"),
        (dict(y_train=np.zeros(3)), "x_train has shape (4, 8, 8) and y_train (3,); wanted"),
        (dict(y_test=np.zeros(3)), "x_test has shape (2, 8, 8) and y_test (3,); wanted"),
        (dict(x_test=np.zeros((2, 9, 9))), "(8, 8) in x_train, of (9, 9) in x_test"),
        (dict(x_train=np.zeros((0, 8, 8)), y_train=np.zeros(0)), "rows > 0"),
    ],
    ids=["names", "rank", "train_rows", "test_rows", "sizes", "no_rows"],
)
def test_data_of_another_layout_is_refused(arrays, message, tmp_path, capsys):
    right = dict(
        x_train=np.zeros((4, 8, 8)),
        y_train=np.zeros(4),
        x_test=np.zeros((2, 8, 8)),
        y_test=np.zeros(2),
    )
    np.savez(tmp_path / "data.npz", **(arrays if "a" in arrays else {**right, **arrays}))
    assert message in refusal(capsys, "train", "--data", tmp_path / "data.npz")


def test_data_that_is_no_npz_file_is_refused(tmp_path, capsys):
    missing, text, array = (tmp_path / name for name in ("missing.npz", "text.npz", "array.npy"))
    text.write_text("not an archive")
    np.save(array, np.zeros(3))
    assert "No such file" in refusal(capsys, "train", "--data", missing)
    for path in (text, array):
        assert f"{path} is not an .npz file" in refusal(capsys, "train", "--data", path)


def test_missing_packages_are_named(digits_file, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = refusal(capsys, "train", "--data", digits_file, "--plot", "plot.png")
    assert "--plot needs matplotlib: pip install matplotlib" in message
    monkeypatch.setattr(datasets, "mnist", lambda: None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    message = refusal(capsys, "train")
    assert "No data: MNIST is neither cached nor downloadable" in message
    assert "--data FILE.npz" in message


def test_an_interrupted_training_says_how_far_it_was(digits_file, monkeypatch, capsys):
    def interrupt(progress, runs_done):
        if len(progress.accuracy) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(_report.Bar, "_show", lambda bar, *where: interrupt(*where))
    arguments = ["train", "--model", "logistic", "--data", str(digits_file), "--epochs", "5"]
    assert cli.main(arguments) == 130
    shown = capsys.readouterr()
    assert re.search(r"interrupted after 2 of 5 epochs, test accuracy 0\.\d{4}$", shown.out, re.M)
    assert shown.err.endswith("tensorbow: interrupted\n")


@pytest.mark.parametrize("tqdm", [True, False])
def test_without_a_bar_there_is_a_line_now_and_then(digits_file, tqdm, monkeypatch, capsys):
    if not tqdm:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    train(digits_file, epochs=2)
    assert "epoch" not in capsys.readouterr().err, "ten seconds are not over"
    monkeypatch.setattr(_report, "SECONDS_BETWEEN_LINES", 0.0)
    train(digits_file, epochs=2)
    said = capsys.readouterr().err
    runs = re.findall(r": run (\d+) of (\d+), epoch (\d) of 2", said)
    total = len(runs)
    wanted = [(str(k), str(total), "1" if 2 * k <= total else "2") for k in range(1, total + 1)]
    assert total > 10 and runs == wanted
    assert len(re.findall(r"epoch 2 of 2, test accuracy 0\.\d{4}$", said, re.M)) == total // 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "--epochs", "0"],
        ["tune", "no_such.py"],
        ["launch", "--hosts", "2", "no_such.py"],
        ["plan", "no_such.py"],
    ],
)
def test_a_refusal_shows_the_usage_of_its_command(arguments, capsys):
    assert refusal(capsys, *arguments).startswith(f"usage: tensorbow {arguments[0]} [-h]")


def test_other_commands_do_not_start_without_the_runtime(tmp_path):
    shutil.copytree(pathlib.Path(tensorbow.__file__).parent, tmp_path / "tensorbow")
    (tmp_path / "tensorbow" / "libtensorbow.so").unlink()
    process = subprocess.run(
        [sys.executable, "-m", "tensorbow.cli", "train"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "TF_CPP_MIN_LOG_LEVEL": "3", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 1
    assert "ImportError: TensorBow cannot start" in process.stderr
