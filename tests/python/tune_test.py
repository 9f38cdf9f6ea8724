"""`tensorbow tune`: its measurements, output, plots and refusals."""

import re
import textwrap

import pytest
import tensorflow as tf

import tensorbow
from tensorbow import cli
from tensorbow.cli import tune
from tensorbow.tuning import Measurement

PROGRAM = """
    import sys
    import numpy as np
    import tensorflow as tf
    IMPORT

    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [None, 20])
        y = tf1.placeholder(tf.float32, [None])
        w = tf1.get_variable("w", initializer=np.ones(20, np.float32))
        loss = tf.reduce_mean(tf.square(tf.linalg.matvec(x, w) - y))
        train = tf1.train.GradientDescentOptimizer(0.001).minimize(loss)
        random = np.random.default_rng(0)
        feeds = {x: random.standard_normal((64, 20)), y: random.standard_normal(64)}
        with SESSION as session:
            print("session of", type(session).__mro__[1].__name__, sys.argv[1:])
            session.run(tf1.global_variables_initializer())
            for _ in range(RUNS):
                session.run(train, feeds)
    print("the end")
"""


def script(folder, session="tf1.Session()", runs=10_000_000, imports="tf1 = tf.compat.v1"):
    path = folder / "program.py"
    text = textwrap.dedent(PROGRAM).replace("SESSION", session).replace("RUNS", str(runs))
    text = text.replace("IMPORT", imports)
    path.write_text("import tensorbow\n" + text)
    return path


def tuned(capsys, *arguments):
    """Returns the command's output, by line, and its exit status."""
    status = cli.main(["tune", *map(str, arguments)])
    return capsys.readouterr().out.splitlines(), status


def rows_of(lines):
    """Returns learners, threads, share of the best, and the rest of every row of the table."""
    pattern = r"(\d+) learners?\s+x (\d+) threads?\s+[\d,]+\s+(\d+)%\s+\d+%\s*(.*)"
    found = [re.fullmatch(pattern, line) for line in lines]
    return [tuple(match.groups()) for match in found if match]


def test_a_script_with_stock_sessions_is_tuned_and_ended(tmp_path, capsys):
    stock, ours = tf.compat.v1.Session, tensorbow.TensorBowSession
    program = script(tmp_path)
    lines, status = tuned(capsys, "--seconds", 300, program, "one", "--two")
    assert status == 0, lines
    assert "session of TensorBowSession ['one', '--two']" in lines
    assert "the end" not in lines
    rows = rows_of(lines)
    cores = tensorbow.Options().num_learners
    assert {("1", str(cores)), (str(cores), "1")} <= {row[:2] for row in rows}
    assert sum(row[3] == "chosen" for row in rows) == 1
    assert "100" in {row[2] for row in rows}
    assert tf.compat.v1.Session is stock and tensorbow.TensorBowSession is ours


def test_a_script_that_says_how_many_or_trains_too_little_is_not_tuned(tmp_path, capsys):
    fixed = "tensorbow.TensorBowSession(options=tensorbow.Options(learners_per_device=2))"
    for path in (script(tmp_path, fixed, runs=50), script(tmp_path, runs=3)):
        lines, status = tuned(capsys, path)
        assert status == 1
        assert "the end" in lines
        assert any("Nothing was measured" in line for line in lines)


def test_sessions_of_the_other_module_of_version_1_are_replaced_too(tmp_path, capsys):
    """Importing it makes `tf.compat.v1` another module's name, for the rest of the process."""
    stock = tf.compat.v1.Session
    program = script(tmp_path, runs=3, imports="import tensorflow.compat.v1 as tf1")
    lines, _ = tuned(capsys, program, "one")
    assert "session of TensorBowSession ['one']" in lines
    assert tf.compat.v1.Session is stock


def test_the_time_limit_ends_a_script_that_is_not_tuned(tmp_path, capsys):
    fixed = "tensorbow.TensorBowSession(options=tensorbow.Options(learners_per_device=2))"
    lines, status = tuned(capsys, "--seconds", 3, script(tmp_path, fixed))
    assert status == 1
    assert "the end" not in lines


def test_what_was_tried_is_drawn(tmp_path, capsys, monkeypatch):
    picture = tmp_path / "tuning.png"
    tried = [Measurement(2, 1, 10.0, 0.1, "", False), Measurement(1, 2, 20.0, 0.1, "", True)]
    monkeypatch.setattr(tune, "tune_model", lambda watch, *arguments: watch.tuning.extend(tried))
    lines, status = tuned(capsys, "--model", "logistic", "--plot", picture)
    assert status == 0
    assert sum(row[3] == "chosen" for row in rows_of(lines)) == 1
    assert lines[-1] == f"plot saved as {picture}"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_time_may_be_over_before(monkeypatch, capsys):
    assert tuned(capsys, "--model", "logistic", "--seconds", 0.001)[1] == 1
    tried = [Measurement(2, 1, 10.0, 0.1, "", False)]
    monkeypatch.setattr(tune, "tune_model", lambda watch, *arguments: watch.tuning.extend(tried))
    lines, status = tuned(capsys, "--model", "logistic")
    assert status == 0
    assert lines[-1] == "The time was over before a number was settled on."


def test_an_interrupted_search_prints_what_it_has_tried(monkeypatch, capsys):
    def tune_model(watch, *arguments):
        watch.tuning.append(Measurement(2, 1, 10.0, 0.1, "", False))
        raise KeyboardInterrupt

    monkeypatch.setattr(tune, "tune_model", tune_model)
    lines, status = tuned(capsys, "--model", "logistic")
    assert status == 130
    assert rows_of(lines) == [("2", "1", "100", "")]


def test_the_table_of_what_was_tried():
    tried = [
        Measurement(2, 1, 1000.0, 0.05, "", False),
        Measurement(1, 2, 2000.0, 0.1, "", True),
        Measurement(4, 1, 0.0, 0.0, "skipped: no memory", False),
    ]
    assert tune.table(tried).splitlines() == [
        "                        samples/s  of the best  spread",
        "2 learners x 1 thread       1,000          50%      5%",
        "1 learner  x 2 threads      2,000         100%     10%  chosen",
        "4 learners x 1 thread           0           0%      0%  skipped: no memory",
    ]


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([], "required"),
        (["--model", "lenet", "--batch-size", "0"], "--batch-size must be greater than 0, got 0"),
        (["--model", "lenet", "--seconds", "-1"], "--seconds must be greater than 0"),
        (["--model", "another"], "invalid choice"),
        (["--model", "lenet", "--plot", "none/plot.png"], "--plot none/plot.png: there is no"),
        (["missing.py"], "missing.py: there is no such file"),
    ],
)
def test_what_cannot_work_is_refused(arguments, said, capsys):
    with pytest.raises(SystemExit) as error:
        cli.main(["tune", *arguments])
    assert error.value.code == 2
    assert said in capsys.readouterr().err
