"""The `tensorbow` command: its training, output, files and refusals."""

import dataclasses
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
from tensorbow import cli, datasets, models, training
from tensorbow.cli.train import report
from tensorbow.cli.train.turns import Progress

tf1 = tf.compat.v1


@pytest.fixture(scope="module")
def digits_file(digits, tmp_path_factory):
    """Writes the digits in MNIST's layout, split as `datasets.digits` splits them."""
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
    """Returns the test accuracies by epoch of such a run."""
    train(data, "--json", path, *flags, **settings)
    (numbers,) = json.loads(path.read_text())
    return numbers["accuracy"]


def refusal(capsys, *arguments):
    """Returns the output when the command refuses its arguments."""
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

    assert stock["name"] == "stock TensorFlow"
    assert ours["name"] == "TensorBow, 2 learners"
    for contender in (stock, ours):
        assert contender["target"] == 0.9
        assert contender["samples"] == [1437, 2 * 1437, 3 * 1437]
        assert np.all(np.diff([0, *contender["seconds"]]) > 0)
        assert 0.85 < contender["accuracy"][-1] <= 1
        samples, seconds = np.sum(contender["turns"], axis=0)
        assert samples == contender["samples"][-1]
        assert seconds == pytest.approx(contender["seconds"][-1])

    # The table shows the same numbers.
    lines = output.splitlines()
    assert lines[0] == (
        "logistic on digits.npz: 1437 training and 360 test images of 8x8x1; momentum, learning "
        "rate 0.1, 32 rows a step, 2 learners; target accuracy 0.9"
    )
    columns = ["samples/s", "spread", "epochs to target", "seconds to target"]
    assert re.split(r"\s{2,}", lines[1].strip()) == [*columns, "final test accuracy"]
    for line, contender in zip(lines[3:5], (stock, ours)):
        name, speed, _, epochs, seconds, accuracy = re.split(r"\s{2,}", line)
        assert name == contender["name"]
        rates = [samples / seconds for samples, seconds in contender["turns"]]
        assert speed == f"{np.median(rates):,.0f}"
        reached = [k for k, value in enumerate(contender["accuracy"]) if value >= 0.9]
        assert epochs == (str(reached[0] + 1) if reached else "not reached")
        assert seconds == (f"{contender['seconds'][reached[0]]:.2f}" if reached else "not reached")
        assert accuracy == f"{contender['accuracy'][-1]:.4f}"
    ratios = [b[0] / b[1] / (a[0] / a[1]) for a, b in zip(stock["turns"], ours["turns"])]
    wanted = f"throughput: {np.median(ratios):.2f} times that of stock TensorFlow"
    assert lines[5].startswith(wanted)
    assert lines[6].startswith("too short: ")
    # Files are written after the table has been printed.
    saved = [f"plot saved as {plot}", f"numbers saved as {numbers}"]
    assert lines[-3:] == [*saved, f"central model saved as {model}"]

    # The plot is a picture that is not empty.
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
    said = capsys.readouterr().out
    assert "on digits made of scikit-learn's: 6000 training and 1000 test images of 28x28x1" in said


def test_mnist_is_taken_from_the_cache_of_keras(digits_file, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    assert datasets.mnist() is None
    (tmp_path / "datasets").mkdir()
    shutil.copy(digits_file, tmp_path / "datasets" / "mnist.npz")
    found = datasets.mnist()
    assert (found.name, found.num_rows) == ("MNIST", 1437)


def test_test_digits_are_made_of_digits_that_are_not_trained_on(monkeypatch):
    small = datasets.digits()
    blank = dataclasses.replace(small, x_test=np.zeros_like(small.x_test))
    monkeypatch.setattr(datasets, "digits", lambda: blank)
    made = datasets.large_digits(rows=2000, test=500)
    assert made.x_train.shape == (2000, 28, 28, 1) and made.x_train.dtype == np.float32
    assert np.all(made.x_test == 0)
    assert np.all(made.x_train.max(axis=(1, 2, 3)) > 0.5) and made.x_train.max() <= 1
    np.testing.assert_array_equal(made.y_train[:1437], small.y_train)
    assert np.any(made.x_train[0] != made.x_train[1437]), "the same digit, moved otherwise"


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
    assert re.search(
        r"learners +[\d,]+ +\d+% +1 +\d\.\d\d +0\.\d{4}$", capsys.readouterr().out, re.M
    )
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
    assert "TensorBow, " not in capsys.readouterr().err
    monkeypatch.setenv("TENSORBOW_PROGRESS", "1")
    monkeypatch.setattr(report, "SECONDS_BETWEEN_METRICS", 0.0)
    train(digits_file, epochs=2)
    text = capsys.readouterr().err
    assert "TensorBow, 2 learners: " in text
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
        (["--plot", "plot"], "--plot plot: the ending chooses the format; wanted one of .png"),
        (["--plot", "plot.xyz"], "wanted one of .png .pdf .svg"),
        (["--json", "/"], "--json /: this is a directory; wanted the name of a file in it"),
        (["--data", "synthetic:8x8"], "wanted synthetic:SHAPE:CLASSES"),
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
    assert f"--data {missing}: there is no such file" in refusal(capsys, "train", "--data", missing)
    for path in (text, array):
        assert f"{path} is not an .npz file" in refusal(capsys, "train", "--data", path)


def test_a_missing_matplotlib_is_named(digits_file, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = refusal(capsys, "train", "--data", digits_file, "--plot", "plot.png")
    assert "pip install matplotlib" in message


def test_rows_are_made_up_where_nothing_ships_digits(monkeypatch):
    monkeypatch.setattr(datasets, "mnist", lambda: None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert datasets.load().name == "made-up rows"
    with pytest.raises(ImportError, match="pip install scikit-learn"):
        datasets.digits()


def interrupt_after(epochs, monkeypatch):
    """Presses Ctrl-C when a contender has completed `epochs`."""

    def interrupt(bar, progress, rows, session):
        if len(progress.accuracy) == epochs:
            raise KeyboardInterrupt

    monkeypatch.setattr(report.Bar, "__call__", interrupt)


def test_an_interrupted_training_saves_what_there_is(digits_file, tmp_path, monkeypatch, capsys):
    interrupt_after(2, monkeypatch)
    arguments = ["train", "--model", "logistic", "--data", digits_file, "--epochs", "5"]
    names = {"--json": "n.json", "--plot": "p.png", "--save": "model"}
    for flag, name in names.items():
        arguments += [flag, tmp_path / name]
    assert cli.main([str(a) for a in arguments]) == 130
    shown = capsys.readouterr().out
    assert re.search(r"interrupted after 2 epochs, test accuracy 0\.\d{4}$", shown, re.M)
    assert "final test accuracy" in shown
    (numbers,) = json.loads((tmp_path / "n.json").read_text())
    assert len(numbers["accuracy"]) == 2
    assert (tmp_path / "p.png").exists() and (tmp_path / "model.index").exists()


def test_training_that_is_interrupted_at_once_saves_the_model_alone(
    digits_file, tmp_path, monkeypatch, capsys
):
    interrupt_after(0, monkeypatch)
    arguments = ["train", "--model", "logistic", "--data", digits_file]
    arguments += ["--json", tmp_path / "n.json", "--save", tmp_path / "model"]
    assert cli.main([str(a) for a in arguments]) == 130
    assert "interrupted after 0 epochs\n" in capsys.readouterr().out
    assert not (tmp_path / "n.json").exists() and (tmp_path / "model.index").exists()


def test_a_file_that_cannot_be_written_in_the_end_is_one_line(
    digits_file, tmp_path, monkeypatch, capsys
):
    def fail(*arguments):
        raise OSError(28, "No space left on device\nand more")

    monkeypatch.setattr(report, "_plot", fail)
    arguments = ["train", "--model", "logistic", "--data", digits_file, "--epochs", "1"]
    arguments += ["--json", tmp_path / "n.json", "--plot", tmp_path / "p.png"]
    assert cli.main([str(a) for a in arguments]) == 1
    shown = capsys.readouterr()
    wanted = (
        f"tensorbow: plot not saved as {tmp_path / 'p.png'}: [Errno 28] No space left on device"
    )
    assert shown.err.splitlines()[-1] == wanted
    assert "final test accuracy" in shown.out and (tmp_path / "n.json").exists()


@pytest.mark.parametrize("tqdm", [True, False])
def test_without_a_bar_there_is_a_line_now_and_then(digits_file, tqdm, monkeypatch, capsys):
    if not tqdm:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    train(digits_file, epochs=2)
    assert "epoch" not in capsys.readouterr().err, "ten seconds are not over"
    monkeypatch.setattr(report, "SECONDS_BETWEEN_LINES", 0.0)
    train(digits_file, epochs=2)
    said = capsys.readouterr().err
    rows = re.findall(r": row ([\d,]+) of 2,874, epoch (\d) of 2", said)
    done = [*range(32, 1437, 32), 1437]
    wanted = [f"{epoch * 1437 + n:,}" for epoch in (0, 1) for n in done]
    assert [row for row, _ in rows] == wanted
    # An epoch ends with its last run.
    assert [epoch for _, epoch in rows] == ["1"] * (len(done) - 1) + ["2"] * (len(done) + 1)
    assert len(re.findall(r"epoch 2 of 2, test accuracy 0\.\d{4}$", said, re.M)) == len(done) + 1


def test_lines_count_epochs_beyond_those_asked_for(monkeypatch, capsys):
    monkeypatch.setattr(report, "SECONDS_BETWEEN_LINES", 0.0)
    shown = report.Bar(rows=100, epochs=2, contenders=1)
    progress = Progress("stock", 0.9, accuracy=[0.5, 0.6])
    for rows in (200, 10):
        shown(progress, rows, session=None)
    shown.close()
    lines = re.findall(r"row (\d+ of \d+, epoch \d of \d)", capsys.readouterr().err)
    assert lines == ["200 of 200, epoch 2 of 2", "210 of 300, epoch 3 of 3"]


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


def command(folder, *arguments, **environment):
    """Runs `python -m tensorbow` in a process of its own, with the package in `folder`."""
    return subprocess.run(
        [sys.executable, "-m", "tensorbow", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"} | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def copy(tmp_path):
    """Copies the package beside a TensorFlow that reports its import, and fails."""
    shutil.copytree(pathlib.Path(tensorbow.__file__).parent, tmp_path / "tensorbow")
    (tmp_path / "tensorflow.py").write_text(
        "import sys\nprint('imported', file=sys.stderr)\nraise ImportError('not today')\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    "arguments, status, said",
    [
        (["--help"], 0, "usage: tensorbow"),
        (["--version"], 0, f"tensorbow {tensorbow.__version__}"),
        (["train", "--help"], 0, "usage: tensorbow train"),
        (["train", "--epochs", "0"], 2, "--epochs must be greater than 0"),
        (["train", "--plot", "a.xyz"], 2, "the ending chooses the format"),
        (["train", "--data", "none.npz"], 2, "there is no such file"),
        (["tune", "none.py"], 2, "there is no such file"),
        (["tune", "--model", "lenet", "--seconds", "0"], 2, "--seconds must be greater than 0"),
        (["plan", "none.py"], 2, "there is no such file"),
        (["launch", "--hosts", "2", "none.py"], 2, "there is no file"),
        (["launch"], 2, "the following arguments are required: script\n"),
        (["no"], 2, "invalid choice: 'no'"),
    ],
)
def test_arguments_are_judged_before_tensorflow_is_imported(arguments, status, said, copy):
    process = command(copy, *arguments)
    assert process.returncode == status
    assert said in process.stdout + process.stderr
    assert "imported" not in process.stderr


@pytest.mark.parametrize("arguments", [["train"], ["tune", "--model", "lenet"], ["doctor"]])
def test_commands_say_something_before_tensorflow_is_imported(arguments, copy):
    process = command(copy, *arguments)
    assert process.returncode == 1
    assert process.stderr.startswith("tensorbow")
    assert "Traceback" not in process.stderr
    assert "cannot be imported (not today). Fix: pip install" in process.stdout + process.stderr


def test_what_tensorflow_logs_while_it_is_imported_is_shown_if_asked_for_or_if_it_fails(copy):
    (copy / "tensorflow.py").write_text(
        "import os\nos.write(2, b'I0000 noise\\n')\n__version__ = '2.18.0'\n"
    )
    for level, shown in (("0", True), ("1", True), ("2", False), ("3", False), ("", False)):
        process = command(copy, "train", **({"TF_CPP_MIN_LOG_LEVEL": level} if level else {}))
        assert ("noise" in process.stderr) == shown, level
        assert "found TensorFlow 2.18.0, but wants" in process.stderr
    (copy / "tensorflow.py").write_text(
        "import os\nos.write(2, b'I0000 noise\\n')\nraise OSError\n"
    )
    assert "I0000 noise" in command(copy, "train").stderr


def test_other_commands_do_not_start_without_the_runtime(copy):
    (copy / "tensorflow.py").unlink()
    (copy / "tensorbow" / "libtensorbow.so").unlink()
    process = command(copy, "train")
    assert process.returncode == 1
    assert process.stderr.splitlines()[-1].startswith("tensorbow: TensorBow cannot start")
    assert "Traceback" not in process.stderr
