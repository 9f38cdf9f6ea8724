"""The metrics of learners, against known facts about the runs."""

import json
import math
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from programs import linear, rows, session

import tensorbow

tf1 = tf.compat.v1


def momentum():
    return tf1.train.MomentumOptimizer(0.05, 0.9)


def train(p, sess, runs, count=12):
    for i in range(runs):
        x, y = rows(count, columns=int(p.x.shape[1]), seed=i)
        sess.run(p.train, {p.x: x, p.y: y})


def slow_learner(seconds):
    """Makes a program in which the task with the row 1 sleeps."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None])

        def wait(row):
            if row[0] == 1:
                time.sleep(seconds)
            return row

        w = tf1.get_variable("w", initializer=np.float32(1))
        row = tf.reshape(tf1.py_func(wait, [x], tf.float32, stateful=False), [-1])
        step = tf1.train.GradientDescentOptimizer(0.01).minimize(tf.reduce_mean(w * row))
        init = tf1.global_variables_initializer()
    return graph, x, step, init


def test_nothing_is_known_before_the_first_run():
    p = linear()
    with session(p.graph, learners=2) as sess:
        metrics = sess.metrics()
        assert (metrics.runs, metrics.samples, metrics.samples_per_second) == (0, 0, 0)
        assert [learner.tasks for learner in metrics.learners] == [0, 0]
        assert all(math.isfinite(value) for value in metrics.scalars().values())


def test_counts_are_those_of_the_runs():
    p = linear(optimiser=momentum)
    with session(p.graph, learners=3) as sess:
        sess.run(p.init)
        train(p, sess, 10)
        train(p, sess, 1, count=2)  # two learners
        begin = time.perf_counter()
        train(p, sess, 5)
        seconds = time.perf_counter() - begin
        metrics = sess.metrics()
        assert metrics.runs == 16
        assert metrics.samples == 15 * 12 + 2 == sess.samples_seen
        tasks = [learner.tasks for learner in metrics.learners]
        assert tasks == [16, 16, 15] and sum(tasks) == sess.learning_tasks
        assert 0 < metrics.seconds_in_runs <= metrics.seconds
        assert metrics.samples_per_second == metrics.samples / metrics.seconds
        assert 0 < metrics.synchronisation < 1
        for learner in metrics.learners:
            assert 0 < learner.task_seconds.median <= learner.task_seconds.p95
            assert learner.task_seconds.median < seconds
            assert 0 <= learner.wait_seconds.median <= learner.wait_seconds.p95
            assert 0 < learner.memory_bytes <= learner.peak_memory_bytes
        sess.set_learners(2)
        assert sess.metrics().runs == 0
        train(p, sess, 2)
        assert [learner.tasks for learner in sess.metrics().learners] == [2, 2]


def test_only_the_last_runs_count():
    p = linear()
    with session(p.graph, learners=2) as sess:
        sess.run(p.init)
        train(p, sess, 300)
        metrics = sess.metrics()
        assert metrics.runs == 256
        assert metrics.samples == 256 * 12
        assert metrics.learners[1].tasks == 300


@pytest.mark.parametrize("synchroniser", [tensorbow.SMA(), tensorbow.SSGD()], ids=str)
def test_the_spread_is_that_of_the_replicas(synchroniser):
    p = linear(optimiser=momentum, columns=7)
    with session(p.graph, learners=3, synchroniser=synchroniser) as sess:
        sess.run(p.init)
        train(p, sess, 5)
        learners = sess.metrics().learners
        z = sess.central(p.w, averaged=False)
        for j, learner in enumerate(learners):
            w = sess.learner_value(p.w, j)
            expected = np.linalg.norm(w - z) / np.linalg.norm(z)
            np.testing.assert_allclose(learner.spread, expected, rtol=1e-5)
        assert (learners[0].spread > 0) == isinstance(synchroniser, tensorbow.SMA)


def test_a_lone_learner_waits_for_nobody():
    p = linear()
    with session(p.graph, learners=1) as sess:
        sess.run(p.init)
        train(p, sess, 5)
        (learner,) = sess.metrics().learners
        assert learner.tasks == 5
        assert learner.spread == 0
        assert learner.wait_seconds.p95 < 0.5 * learner.task_seconds.median


@pytest.mark.parametrize("synchroniser", [tensorbow.SMA(), tensorbow.SSGD()], ids=str)
def test_waiting_is_told_apart_from_computing(synchroniser):
    graph, x, step, init = slow_learner(0.05)
    options = {"synchroniser": synchroniser, "shard": [x], "proof": "off"}
    with session(graph, learners=2, **options) as sess:
        sess.run(init)
        for _ in range(10):
            sess.run(step, {x: [0, 1]})  # learner 1 sleeps
        metrics = sess.metrics()
        fast, slow = metrics.learners
        assert fast.wait_seconds.median > 0.04
        assert fast.task_seconds.median < 0.02
        assert slow.wait_seconds.median < 0.02
        assert slow.task_seconds.median > 0.045
        assert 0.3 < metrics.synchronisation < 0.6


def events_of(path):
    """Returns the events of a trace by lane, and its lanes' names."""
    found = json.loads(path.read_text())
    assert found["otherData"]["dropped"] == 0
    lanes, names = {}, {}
    for event in found["traceEvents"]:
        if event["ph"] == "X":
            lanes.setdefault(event["tid"], []).append(event)
        elif event["name"] == "thread_name":
            names[event["tid"]] = event["args"]["name"]
    return lanes, names


def lasted(events, name):
    return [event["dur"] for event in events if event["name"] == name]


def test_a_trace_has_a_lane_for_every_learner(tmp_path):
    p = linear(optimiser=momentum)
    path = tmp_path / "trace.json"
    with session(p.graph, learners=2) as sess:
        sess.run(p.init)
        train(p, sess, 3)
        with sess.trace(path):
            train(p, sess, 5)
            sess.set_learners(3)
            train(p, sess, 2)
        train(p, sess, 4)
    lanes, names = events_of(path)
    assert names == {0: "session", 1: "learner 0", 2: "learner 1", 3: "learner 2"}
    runs = [event for event in lanes[0] if event["name"].startswith("run ")]
    assert len(runs) == 7 and p.train.name in runs[0]["name"]
    assert len(lasted(lanes[0], "learners 2 -> 3")) == 1
    assert len(lasted(lanes[0], "compile")) >= 1
    for j, tasks in ((0, 7), (1, 7), (2, 2)):
        events = lanes[j + 1]
        of_tasks = [e for e in events if e["name"] == "task 0"]
        assert len(of_tasks) == len(lasted(events, "feed")) == tasks
        assert len(lasted(events, "update w")) == tasks
        for task, run in zip(of_tasks, runs[-tasks:], strict=True):
            assert run["ts"] <= task["ts"]
            assert task["ts"] + task["dur"] <= run["ts"] + run["dur"] + 1
        # The events of a task lie inside of it.
        for event in events:
            if event["name"].startswith(("update", "feed")):
                assert any(
                    task["ts"] <= event["ts"]
                    and event["ts"] + event["dur"] <= task["ts"] + task["dur"] + 0.01
                    for task in of_tasks
                ), event


@pytest.mark.parametrize("learners", [1, 2])
def test_a_trace_under_averaged_gradients(tmp_path, learners):
    p = linear(optimiser=momentum)
    path = tmp_path / "trace.json"
    with session(p.graph, learners=learners, synchroniser=tensorbow.SSGD()) as sess:
        sess.run(p.init)
        with sess.trace(path):
            train(p, sess, 5)
    lanes, _ = events_of(path)
    assert set(lanes) == set(range(learners + 1))
    for j in range(learners):
        assert len(lasted(lanes[j + 1], "task 0")) == 5
        updates = [e for e in lanes[j + 1] if e["name"].startswith("update")]
        assert len(updates) == (5 if learners > 1 else 0)  # a lone learner's are TensorFlow's


def test_a_trace_and_the_metrics_agree(tmp_path):
    graph, x, step, init = slow_learner(0.02)
    path = tmp_path / "trace.json"
    with session(graph, learners=2, shard=[x], proof="off") as sess:
        sess.run(init)
        with sess.trace(path):
            for _ in range(9):
                sess.run(step, {x: [0, 1]})
        fast, _ = sess.metrics().learners
    lanes, _ = events_of(path)
    waited = sum(lasted(lanes[1], "wait")) / 9 * 1e-6
    assert abs(waited - fast.wait_seconds.median) < 0.01


def test_a_trace_ends_with_an_error_and_may_begin_again(tmp_path):
    p = linear()
    with session(p.graph, learners=2) as sess:
        sess.run(p.init)
        with pytest.raises(ZeroDivisionError), sess.trace(tmp_path / "first"):
            train(p, sess, 1)
            1 / 0  # noqa: B018
        assert len(events_of(tmp_path / "first")[0][1]) > 0
        with pytest.raises(FileNotFoundError), sess.trace(tmp_path / "none" / "trace"):
            pass
        with sess.trace(tmp_path / "second"):
            with pytest.raises(RuntimeError, match="already"), sess.trace(tmp_path / "third"):
                pass
            train(p, sess, 1)
        assert len(events_of(tmp_path / "second")[0][1]) > 0
        assert not (tmp_path / "third").exists()
        with pytest.raises(TypeError, match="trace: path"), sess.trace(3):
            pass


def test_metrics_may_be_asked_for_while_a_program_trains():
    p = linear(optimiser=momentum)
    with session(p.graph, learners=2) as sess:
        sess.run(p.init)
        over = threading.Event()
        counts = []

        def watch():
            while not over.is_set():
                counts.append(sess.metrics().learners[0].tasks)

        watcher = threading.Thread(target=watch)
        watcher.start()
        train(p, sess, 200)
        over.set()
        watcher.join(60)
        assert not watcher.is_alive()
        assert counts == sorted(counts)
        assert sess.metrics().learners[0].tasks == 200


def scalars(folder):
    """Returns (tag, step) → value of all event files of a folder."""
    values = {}
    for path in folder.glob("*tfevents*"):
        for event in tf1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                values[value.tag, event.step] = value.simple_value
    return values


def test_a_hook_writes_the_metrics(tmp_path):
    with tf.Graph().as_default():
        step = tf1.train.get_or_create_global_step()
        w = tf1.get_variable("w", initializer=np.ones(3, np.float32))
        x = tf1.placeholder(tf.float32, [None, 3])
        loss = tf.reduce_mean(tf.square(tf.linalg.matvec(x, w)))
        train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        hook = tensorbow.MetricsHook(tmp_path, every_runs=4)
        creator = tensorbow.SessionCreator(options=tensorbow.Options(learners_per_device=2))
        with tf1.train.MonitoredSession(creator, hooks=[hook]) as monitored:
            for _ in range(10):
                monitored.run(train_op, {x: np.ones((4, 3), np.float32)})
    found = scalars(tmp_path)
    assert {at for _, at in found} == {4, 8, 10}
    assert found["tensorbow/learners", 4] == 2
    assert found["tensorbow/samples_per_second", 8] > 0
    assert ("tensorbow/learner_1/spread", 10) in found
    for wrong, error in (({"every_runs": 0}, ValueError), ({"every_runs": 1.5}, TypeError)):
        with pytest.raises(error, match="every_runs"):
            tensorbow.MetricsHook(tmp_path, **wrong)
    with pytest.raises(TypeError, match="output_dir"):
        tensorbow.MetricsHook(3)
