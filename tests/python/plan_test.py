"""`tensorbow plan`: its measurements, output and refusals."""

import json
import re
import statistics
import types

import pytest
import tensorflow as tf

from tensorbow import cli
from tensorbow.cli.plan import command as plan
from tensorbow.cli.plan import sum_costs, task_times
from tensorbow.cli.plan.cost_model import Cluster, Exchange, Host, Layer, Network, SumCosts, Task

PROGRAM = """
import numpy as np
import tensorflow as tf
tf1 = tf.compat.v1
with tf.Graph().as_default():
    x = tf1.placeholder(tf.float32, [None, 20])
    w = tf1.get_variable("w", initializer=np.ones((20, 5), np.float32))
    v = tf1.get_variable("v", initializer=np.ones((5, 1), np.float32))
    loss = tf.reduce_mean(tf.square(x @ w @ v))
    train = tf1.train.AdamOptimizer(0.001).minimize(loss)
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        while True:
            session.run(train, {x: np.ones((12, 20))})
"""
MEASURED = task_times.Measured(
    task=Task(0.010, (Layer("w", 0.006, 4_000_000), Layer("v", 0.003, 1_000)), 0.001),
    rows=32,
    iterations=(0.02,),
    work=(0.02,),
    memory=1e10,
)
COSTS = SumCosts(step=1e-4, byte=1e-9, step_work=1e-4, byte_work=1e-9)


@pytest.fixture
def without_measuring(monkeypatch):
    """Replaces the measurements by given numbers."""
    asked = {}

    def task(job, cores):
        asked.update(job=job, cores=list(cores))
        return MEASURED

    monkeypatch.setattr(task_times, "measure", task)
    monkeypatch.setattr(sum_costs, "measure", lambda shares: asked.update(shares=shares) or COSTS)
    return asked


def test_iterations_are_predicted_for_every_number_of_hosts(without_measuring, tmp_path, capsys):
    path = tmp_path / "plan.json"
    given = ["--hosts", "1,2,64", "--cores", "1", "--sync-period", "8", "--json", str(path)]
    network = ["--latency-us", "50", "--bandwidth-gbit", "4"]
    assert cli.main(["plan", "--model", "lenet", *given, *network]) == 0
    printed = capsys.readouterr().out
    assert "1 learner on 1 core: 20.00 ms an iteration of 32 rows, 1,600 samples/s" in printed
    assert "other programs" not in printed
    # 100 us of software and 50 of the network; 4 Gbit/s are 2 ns a byte.
    assert "Sums: 150 us a step and 2.00 ms per MB sent" in printed
    cluster = Cluster(Host(1, 1, 1e10), Exchange(64), Network(50e-6, 0.5e9), COSTS)
    expected = plan.ways(MEASURED.task, cluster, [8])["SMA, H = 8"]
    row = re.search(r"^ *64 +SMA, H = 8 +([\d.]+) +([\d,]+) ", printed, re.MULTILINE)
    assert row.group(1) == f"{1e3 * expected.seconds:.2f}"
    assert row.group(2) == f"{64 * 32 / expected.seconds:,.0f}"
    saved = json.loads(path.read_text())
    assert saved["predictions"]["64"]["SMA, H = 8"]["seconds"] == expected.seconds
    assert saved["predictions"]["1"]["S-SGD"]["seconds"] == pytest.approx(0.020)
    job = without_measuring["job"]
    assert (job.model, job.rows, job.learners, job.seconds) == ("lenet", 32, 1, 5)
    first, second = without_measuring["shares"]
    assert len(first) == len(second) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--hosts", "2,x"], "wanted numbers from 1 as in 2,4,8, got '2,x'"),
        (["--hosts", "0"], "wanted numbers from 1"),
        (["--cores", "100000"], "--cores must be at most"),
        (["--bandwidth-gbit", "0"], "--bandwidth-gbit must be greater than 0, got 0"),
        (["--latency-us", "-1"], "--latency-us must be at least 0, got -1"),
        (["--json", "/nowhere/plan.json"], "there is no directory /nowhere"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message, capsys):
    with pytest.raises(SystemExit):
        cli.main(["plan", "--model", "lenet", *arguments])
    assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["plan", "nowhere.py"])
    assert "nowhere.py: there is no such file" in capsys.readouterr().err


def test_it_is_told_when_others_use_the_machine():
    # 3 s of computation in the 2 · 4 s of two cores.
    assert "in 38% of the time only" in plan.disturbed([4.0, 4.0, 9.0], [3.0, 3.0, 3.1], cores=2)
    assert plan.disturbed([4.0], [6.0], cores=2) == ""


def node(name, start, length):
    return types.SimpleNamespace(node_name=name, all_start_micros=start, all_end_rel_micros=length)


def test_a_layer_ends_with_its_update():
    updates = {"update_v": ("v", 40), "update_w": ("w", 400)}
    traces = [
        [
            node("a", 100, 50),
            node("update_v", 160, 10),
            node("b", 171, 20),
            node("update_w", 200, 40),
            node("c", 240, 5),
        ],
        [node("a", 0, 60), node("update_v", 70, 30), node("update_w", 120, 20), node("c", 150, 5)],
    ]
    # Forward 60 and 70, v 10 and 30, w from there to 240 and 140, rest 5 and 15.
    expected = Task(65.0, (Layer("v", 20.0, 40), Layer("w", 55.0, 400)), 10.0)
    assert task_times.task_of(traces, updates) == expected


def test_a_script_is_watched_and_ended(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    found = task_times.watch(task_times.Job("", 0, str(script), (), learners=2, seconds=0.05))
    assert found.rows == 12
    assert [layer.name for layer in found.task.layers] == ["v", "w"], "back-propagation's order"
    assert [layer.size_bytes for layer in found.task.layers] == [20, 400]
    assert found.task.seconds == pytest.approx(statistics.median(found.iterations))
    assert sum(found.iterations) > 0.05
    assert 0 < sum(found.work) < 3 * sum(found.iterations), "on two learners and a main thread"


def test_updates_are_found_by_what_they_are_given():
    with tf.Graph().as_default() as graph:
        tf1 = tf.compat.v1
        w = tf1.get_variable("w", [3, 4], tf.float64)
        table = tf1.get_variable("table", [10, 2], use_resource=False)
        loss = tf.cast(tf.reduce_sum(w), tf.float32) + tf.reduce_sum(
            tf.nn.embedding_lookup(table, [1, 2])
        )
        tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        w.assign_add(tf.ones([3, 4], tf.float64))
    updates = task_times.updates_of(graph)
    assert list(updates.values()) == [("w", 96)]
    # Other updates come last; if all are of that kind, nothing hides.
    known = Task(3.0, (Layer("w", 2.0, 96),), 1.0)
    others = Layer("other variables", 0.0, 80)
    assert task_times.with_others(known, graph) == Task(3.0, (*known.layers, others), 1.0)
    everything = Layer("all variables", 6.0, 176)
    assert task_times.with_others(Task(0.0, (), 6.0), graph) == Task(0.0, (everything,))


def test_the_command_measures_this_machine(tmp_path, warm_python):
    path = tmp_path / "plan.json"
    given = ["--model", "logistic", "--hosts", "2", "--cores", "1", "--seconds", "0.2"]
    assert cli.main(["plan", *given, "--json", str(path)]) == 0
    saved = json.loads(path.read_text())
    assert sum(layer["size_bytes"] for layer in saved["measured"]["task"]["layers"]) == 4 * 7850
    assert saved["measured"]["rows"] == 32
    assert saved["sums"]["step"] > 0
    assert saved["sums"]["step_work"] > 0
    assert saved["sums"]["interruption"] > 0
    alone = statistics.median(saved["measured"]["iterations"])
    assert saved["predictions"]["2"]["SMA"]["seconds"] > alone
