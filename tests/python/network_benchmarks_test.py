"""Small runs of benchmarks that compare networks of many kinds."""

import ast
import importlib.util
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import hosts
import layout_changes
import networks
import never_slower
import observability

# tests/python has a module of the same name.
_spec = importlib.util.spec_from_file_location("benchmark_programs", BENCHMARKS / "programs.py")
programs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(programs)

pytestmark = pytest.mark.usefixtures("warm_python")


@pytest.mark.parametrize("name", [n for n in networks.NETWORKS if "VGG" not in n])
def test_every_network_makes_a_loss_that_depends_on_its_weights(name):
    network = networks.NETWORKS[name]
    graph = tf.Graph()
    with graph.as_default():
        inputs, loss = network.make()
        gradients = tf.compat.v1.gradients(loss, tf.compat.v1.trainable_variables())
        init = tf.compat.v1.global_variables_initializer()
    assert all(gradient is not None for gradient in gradients)
    feeds = network.feeds(np.random.default_rng(0), 3)
    with tf.compat.v1.Session(graph=graph) as session:
        session.run(init)
        value = session.run(loss, dict(zip(inputs, feeds, strict=True)))
    assert 0 < value < 20


WHERE = dict(cpu="a CPU", cores=2, memory_gib=1, tensorflow="2", python="3", date="today")


def test_a_network_is_compared_with_a_stock_session():
    found = never_slower.measure("logistic 32", slices=2, seconds=0.02)
    assert {len(speeds) for speeds in found["samples_per_second"].values()} == {2}
    assert found["learners"] >= 1
    last = never_slower.document(WHERE, {"logistic 32": found}, 2, 0.02).splitlines()[-1]
    assert last.startswith("| logistic 32 | ") and f"| {found['learners']} |" in last


def test_what_a_trace_costs_is_measured():
    found = observability.measure("logistic 32", slices=3, seconds=0.02)
    assert {len(speeds) for speeds in found["samples_per_second"].values()} == {3}
    assert found["bytes_per_run"] > 100
    last = observability.document(WHERE, {"logistic 32": found}, 3, 0.02).splitlines()[-1]
    assert last.startswith("| logistic 32 | ")


def test_what_changing_the_number_of_learners_costs_is_measured():
    taken = layout_changes.change("logistic 32", 2)
    assert [len(seconds) for seconds in taken.values()] == [2, 2]
    assert min(taken["change"]) > 0
    tuned = dict(settled=4.0, lost=1.5, layouts=2, learners=1)
    rows = {"logistic 32": {"changes": taken, "finding": tuned}}
    last = layout_changes.document(WHERE, rows, 2).splitlines()[-1]
    assert last.startswith("| logistic 32 | ") and last.endswith(" | 4.0 | 1.5 | 2 | 1 |")


@pytest.mark.parametrize("name", ["cnn", "CNN, 4 towers", "Keras: graph convolution"])
def test_a_program_is_compared_with_stock_step_by_step(name):
    found = programs.in_turns(sys.executable, name, seconds=0.2, stock_first=True)
    assert min(len(turns) for turns in found.values()) > programs.FIRST_STEPS
    rows = {kind: programs.summary([turns]) for kind, turns in found.items()}
    last = programs.document(WHERE, {name: rows}, repetitions=1).splitlines()[-1]
    assert last.startswith(f"| {name} | ")


def test_the_programs_to_compare_are_those_that_there_are():
    listed = f"""
import sys; sys.path[:0] = {[str(BENCHMARKS)]}
import keras_programs, session_programs
print([*keras_programs.PROGRAMS], [*session_programs.PROGRAMS], sep=chr(10))
"""
    done = subprocess.run(
        [sys.executable, "-c", listed], capture_output=True, text=True, check=True
    )
    kerases, sessions = map(ast.literal_eval, done.stdout.splitlines())
    assert (tuple(kerases), tuple(sessions)) == (programs.KERAS, programs.SESSIONS)


def test_hosts_take_their_steps_together():
    found = hosts.contenders(2, 8, 2)
    of_two_hosts = [c for c in found if c[0].name.endswith("2 hosts × 1 learners")]
    assert len(of_two_hosts) == 1
    speeds = hosts.measure(of_two_hosts, "logistic", slices=2, seconds=0.05)
    (name,) = speeds
    assert len(speeds[name]) == 2
    assert min(speeds[name]) > 0
    assert f"| {name} | " in hosts.table(speeds)[-1]
    assert "| 1.00 (1.00–1.00) |" in hosts.table(speeds)[-1]


def test_gradients_of_hosts_travel_in_the_chunks_that_are_asked_for():
    found = hosts.chunked(2, 8, 2, ["3", "search"])
    assert [c.settings.get("chunk") for c, _ in found] == [None, 3, "search"]
    assert {c.settings["synchroniser"] for c, _ in found} == {"SSGD"}
