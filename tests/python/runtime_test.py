"""The session as a session: callables, tracing, threads, several at once, no leaks."""

import gc
import json
import threading

import numpy as np
import psutil
import pytest
import tensorflow as tf
from programs import linear, rows, session
from tensorflow.python.client import timeline

import tensorbow

tf1 = tf.compat.v1


def test_default_is_one_learner_per_core_whose_synchroniser_is_yet_to_be_chosen():
    with tensorbow.TensorBowSession(graph=tf.Graph()) as s:
        assert s.num_learners == len(psutil.Process().cpu_affinity())
        assert s.options.synchroniser == s.synchroniser == "auto"
        assert s.sess_str == b""


def test_callables_learn_too():
    p = linear()
    x, y = rows(8)
    with session(p.graph) as s, session(p.graph) as t:
        for each in (s, t):
            each.run(p.init)
        step = s.make_callable([p.train, p.loss], [p.x, p.y])
        for _ in range(3):
            _, loss = step(x, y)
            _, expected = t.run([p.train, p.loss], {p.x: x, p.y: y})
            assert loss == expected
        assert s.learning_tasks == 6


def test_native_callables_learn_too():
    from tensorflow.core.protobuf import config_pb2

    p = linear()
    x, y = rows(8)
    options = config_pb2.CallableOptions()
    options.feed.extend([p.x.name, p.y.name])
    options.fetch.append(p.loss.name)
    options.target.append(p.train.name)
    with session(p.graph) as s, session(p.graph) as t:
        for each in (s, t):
            each.run(p.init)
        step = s._make_callable_from_options(options)
        for _ in range(3):
            (loss,) = step(x, y)
            expected = t.run([p.loss, p.train], {p.x: x, p.y: y})[0]
            assert loss == expected
        assert s.learning_tasks == 6
        np.testing.assert_array_equal(s.run(p.w), t.run(p.w))
        with pytest.raises(tf.errors.InvalidArgumentError):
            step(x)
        del step
        gc.collect()
        read = config_pb2.CallableOptions()
        read.fetch.append("w/Read/ReadVariableOp:0")
        (value,) = s._make_callable_from_options(read)()
        np.testing.assert_array_equal(value, s.run(p.w))


def test_native_callables_say_what_stock_ones_say_of_devices_and_names():
    from tensorflow.core.protobuf import config_pb2

    p = linear()
    nowhere = config_pb2.CallableOptions(feed=[p.x.name, p.y.name], target=[p.train.name])
    nowhere.feed_devices[p.x.name] = "/job:localhost/replica:0/task:0/device:CPU:7"
    unknown = config_pb2.CallableOptions(fetch=["none:0"])
    with session(p.graph) as s, tf1.Session(graph=p.graph) as stock:
        for each in (s, stock):
            each.run(p.init)
        for options in (nowhere, unknown):
            said = []
            for each in (s, stock):
                with pytest.raises(tf.errors.OpError) as error:
                    each._make_callable_from_options(options)
                said.append((type(error.value), error.value.message))
            assert said[0] == said[1]
        assert s.learning_tasks == 0


def test_native_callables_warn_in_the_run_that_the_warning_is_about():
    """Keras 2 in graph mode trains by nothing else."""
    from tensorflow.core.protobuf import config_pb2

    p = linear()
    x, y = rows(8)
    options = config_pb2.CallableOptions()
    options.feed.extend([p.x.name, p.y.name])
    options.target.append(p.train.name)
    with session(p.graph) as s:
        s.run(p.init)
        step = s._make_callable_from_options(options)
        step(x, y)
        with pytest.warns(tensorbow.TensorBowWarning, match="one learner only"):
            step(x[:1], y)
        assert s.learning_tasks == 3


def test_operation_run_and_tensor_eval_use_the_default_session():
    p = linear()
    x, y = rows(8)
    with p.graph.as_default(), session(p.graph).as_default() as s:
        p.init.run()
        p.train.run({p.x: x, p.y: y})
        assert p.loss.eval({p.x: x, p.y: y}) > 0
        assert s.learning_tasks == 2
        s.close()


def traced_run():
    """Returns a program, and the metadata of one traced learning run of it on two learners."""
    p = linear()
    x, y = rows(8)
    metadata = tf1.RunMetadata()
    options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    with session(p.graph) as s:
        s.run(p.init)
        s.run(p.train, {p.x: x, p.y: y}, options=options, run_metadata=metadata)
        with pytest.raises(tf.errors.InvalidArgumentError, match="inter_op_thread_pool"):
            s.run(p.train, {p.x: x, p.y: y}, options=tf1.RunOptions(inter_op_thread_pool=3))
    return p, metadata


def test_tracing_shows_every_learner():
    _, metadata = traced_run()
    devices = sorted(d.device for d in metadata.step_stats.dev_stats)
    assert [d.rsplit("/", 1)[1] for d in devices] == ["learner:0", "learner:1"]
    for device in metadata.step_stats.dev_stats:
        names = {n.node_name for n in device.node_stats}
        assert any("train" in name for name in names)
    (graph,) = metadata.partition_graphs
    assert any("GradientDescent" in n.op for n in graph.node)


def test_timelines_and_tensorboard_show_every_learner(tmp_path):
    p, metadata = traced_run()
    trace = json.loads(timeline.Timeline(metadata.step_stats).generate_chrome_trace_format())
    lanes = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    for learner in range(2):
        assert any(f"learner:{learner} Compute" in lane for lane in lanes)

    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with p.graph.as_default(), tf1.summary.FileWriter(tmp_path, p.graph) as writer:
        writer.add_run_metadata(metadata, "traced")
    seen = accumulator.EventAccumulator(str(tmp_path)).Reload()
    known = {node.name for node in seen.Graph().node}
    devices = seen.RunMetadata("traced").step_stats.dev_stats
    assert len(devices) == 2
    for device in devices:
        # Nodes of the drawn graph get their times by name.
        named = known & {n.node_name for n in device.node_stats}
        assert {"prediction/MatMul", "train/update_w/ResourceApplyGradientDescent"} <= named


def test_config_is_honoured():
    p = linear()
    config = tf1.ConfigProto(device_count={"CPU": 2})
    with p.graph.as_default(), tf.device("/cpu:1"):
        second = tf.constant(2.0) * 3.0
    with tensorbow.TensorBowSession(
        graph=p.graph, config=config, options=tensorbow.Options(learners_per_device=2)
    ) as s:
        assert [d.name[-5:] for d in s.list_devices()] == ["CPU:0", "CPU:1"]
        s.run(p.init)
        assert s.run(second) == 6
        x, y = rows(8)
        s.run(p.train, {p.x: x, p.y: y})
        assert s.learning_tasks == 2


def test_device_that_does_not_exist_is_refused_unless_placement_is_soft():
    p = linear()
    x, y = rows(8)
    with p.graph.as_default(), tf.device("/gpu:7"):
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(p.w * p.w))
    with session(p.graph) as s:
        with pytest.raises(tf.errors.InvalidArgumentError, match="Cannot assign a device"):
            s.run(train)
    soft = tf1.ConfigProto(allow_soft_placement=True)
    with tensorbow.TensorBowSession(
        graph=p.graph, config=soft, options=tensorbow.Options(learners_per_device=2)
    ) as s:
        s.run(p.init)
        s.run(train)
        assert s.learning_tasks == 1  # it has no rows


def test_two_threads_in_run():
    """Learning runs take turns; reads and writes continue beside them."""
    p = linear()
    x, y = rows(32)
    errors = []
    with session(p.graph) as s:
        s.run(p.init)

        def repeat(count, f):
            try:
                for _ in range(count):
                    f()
            except Exception as error:
                errors.append(error)

        def read():
            w, step = s.run([p.w, p.step])
            assert np.isfinite(w).all()
            assert step >= 0

        threads = [
            threading.Thread(target=repeat, args=(200, lambda: s.run(p.train, {p.x: x, p.y: y}))),
            threading.Thread(target=repeat, args=(200, lambda: s.run(p.train, {p.x: x, p.y: y}))),
            threading.Thread(target=repeat, args=(200, read)),
            threading.Thread(target=repeat, args=(200, lambda: s.run(p.loss, {p.x: x, p.y: y}))),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        assert not any(thread.is_alive() for thread in threads)
        assert not errors
        assert s.learning_tasks == 800
        assert s.samples_seen == 400 * 32
        assert s.run(p.step) == 400


def test_two_sessions_at_once_do_not_touch_each_other():
    p = linear()
    x, y = rows(16)
    with session(p.graph) as s, session(p.graph, learners=3) as t, session(p.graph) as alone:
        for each in (s, t, alone):
            each.run(p.init)
        for _ in range(5):
            s.run(p.train, {p.x: x, p.y: y})
            t.run(p.train, {p.x: 2 * x, p.y: y})
        for _ in range(5):
            alone.run(p.train, {p.x: x, p.y: y})
        np.testing.assert_array_equal(s.run(p.w), alone.run(p.w))
        assert not np.array_equal(s.run(p.w), t.run(p.w))


def test_remote_server_executes_all_runs_as_a_stock_session():
    server = tf1.train.Server.create_local_server()
    p = linear()
    x, y = rows(8)
    feeds = {p.x: x, p.y: y}
    weights = []
    with tf1.Session(server.target, graph=p.graph) as stock:
        stock.run(p.init)
        for _ in range(3):
            stock.run(p.train, feeds)
            weights.append(stock.run(p.w))
    with pytest.warns(tensorbow.TensorBowWarning, match="remote"):
        session = tensorbow.TensorBowSession(server.target, graph=p.graph)
    with session:
        session.run(p.init)
        for expected in weights:
            session.run(p.train, feeds)
            np.testing.assert_array_equal(session.run(p.w), expected)
        with pytest.raises(tf.errors.UnimplementedError, match="remote server"):
            session.save_state("state")


def test_reset_clears_containers_and_closes():
    p = linear()
    x, y = rows(8)
    s = session(p.graph)
    s.run(p.init)
    s.run(p.train, {p.x: x, p.y: y})
    tf1.Session.reset("tensorbow")
    with pytest.raises(tf.errors.CancelledError):
        s.run(p.train, {p.x: x, p.y: y})
    with session(p.graph) as again:
        again.run(p.init)
        again.run(p.train, {p.x: x, p.y: y})


def test_learner_value_of_wrong_learners_and_variables():
    p = linear()
    with session(p.graph) as s:
        s.run(p.init)
        np.testing.assert_array_equal(s.learner_value(p.w, 0), s.run(p.w))
        np.testing.assert_array_equal(s.learner_value("w", 1), s.run(p.w))
        np.testing.assert_array_equal(s.learner_value("w:0", 1), s.run(p.w))
        for learner in (-1, 2):
            with pytest.raises(ValueError, match="from 0 to 1"):
                s.learner_value(p.w, learner)
        with pytest.raises(TypeError, match="must be an int"):
            s.learner_value(p.w, "first")
        with pytest.raises(ValueError, match="no variable .nobody."):
            s.learner_value("nobody", 0)


def own_mib():
    """Returns the process's own memory. Pages of files (libraries) vary with the machine."""
    gc.collect()
    memory = psutil.Process().memory_full_info()
    return (memory.rss - memory.shared + memory.swap) / 2**20


def test_20000_runs_do_not_leak():
    p = linear()
    x, y = rows(32)
    with session(p.graph) as s:
        s.run(p.init)

        def repeat(count):
            for _ in range(count):
                s.run([p.train, p.loss, p.prediction], {p.x: x, p.y: y})

        repeat(2000)
        before = own_mib()
        repeat(20_000)
        assert own_mib() - before < 8
        assert s.learning_tasks == 44_000


def test_50_sessions_do_not_leak():
    p = linear(columns=100_000)  # 0.4 MiB of weights, replicas and averages each
    x, y = rows(8, columns=100_000)

    def cycle():
        with session(p.graph) as s:
            s.run(p.init)
            s.run(p.train, {p.x: x, p.y: y})
            s.run(p.w)

    for _ in range(30):
        cycle()
    before = own_mib()
    threads = psutil.Process().num_threads()
    for _ in range(50):
        cycle()
    assert own_mib() - before < 12
    assert psutil.Process().num_threads() <= threads
