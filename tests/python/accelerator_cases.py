"""The cases of accelerator_test.py, each executed in a process of its own."""

from __future__ import annotations

import pathlib
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import tensorbow
from tests.python import accelerator_layout_cases, recording_cases
from tests.python.emulated_sessions import (
    Emulator,
    Program,
    assert_same,
    new_session,
    options,
    trained,
    values,
)

tf1 = tf.compat.v1


def same_as_on_the_cpu(emulator: Emulator) -> None:
    """Trains to the same replicas, central model and losses as without an accelerator."""
    kinds: list[tuple[str, bool, dict[str, Any]]] = [
        ("momentum", False, {"synchroniser": tensorbow.SMA()}),
        ("momentum", True, {"batch_size": 2, "synchroniser": tensorbow.SMA()}),
        ("adam", True, {"synchroniser": tensorbow.SMA()}),
        ("sgd", False, {"batch_size": 5, "synchroniser": tensorbow.SMA()}),
        ("sgd", True, {"synchroniser": tensorbow.EASGD(sync_period=3)}),
        ("adam", False, {"synchroniser": tensorbow.Independent()}),
    ]

    def all_kinds() -> list[list[np.ndarray]]:
        return [trained(Program(o, resources), **more) for o, resources, more in kinds]

    expected = all_kinds()
    assert emulator.transfers == (0, 0)
    emulator.start()
    for found, wanted in zip(all_kinds(), expected):
        assert_same(found, wanted)
    uploads, downloads = emulator.transfers
    assert uploads > 0 and downloads > 0


def one_learner_is_stock(emulator: Emulator) -> None:
    """Bit-identical to a stock session."""
    emulator.start()
    program = Program("adam", True)
    mine = trained(program, learners_per_device=1)[-19:]
    config = tf1.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, allow_soft_placement=True
    )
    with tf1.Session(graph=program.graph, config=config) as session:
        session.run(program.init)
        fetched = []
        for number in range(8):
            _, loss, logits = session.run(
                [program.train, program.loss, program.logits], program.feeds(number)
            )
            fetched += [loss, logits]
        assert_same(mine, session.run([*program.weights, program.step]) + fetched)


def data_from_the_host(emulator: Emulator) -> None:
    """Checks that tf.data and Python functions run on the CPU, and the model does not."""
    emulator.start()
    graph = tf1.Graph()
    with graph.as_default():
        data = tf1.data.Dataset.from_tensor_slices(np.arange(40, dtype=np.float32)[:, None])
        batch = tf1.data.make_one_shot_iterator(data.batch(2)).get_next()
        seen: list[np.ndarray] = []
        batch = tf1.py_func(lambda rows: (seen.append(rows), rows)[1], [batch], tf.float32)
        batch.set_shape([None, 1])
        with tf1.device("/CPU:1"):
            w = tf1.get_variable("w", [1, 1])
            loss = tf.reduce_mean(tf.matmul(batch, w))
            train = tf1.train.GradientDescentOptimizer(1e-3).minimize(loss)
        init = tf1.global_variables_initializer()
    with tensorbow.TensorBowSession(
        graph=graph,
        config=tf1.ConfigProto(allow_soft_placement=True),
        options=options(elements="one_each"),
    ) as session:
        session.run(init)
        runs = 0
        try:
            while True:
                session.run(train)
                runs += 1
        except tf.errors.OutOfRangeError:
            pass
        assert runs == 10 and session.samples_seen >= 20
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)[:, 0]), np.arange(40))


def variables_of_the_cpu_are_trained_by_one_learner(emulator: Emulator) -> None:
    """Checks that one learner trains a variable that is not on the accelerator, as a stock session
    does, and that the warning names it."""
    emulator.start()
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 2])
        with tf1.device("/CPU:0"):
            w = tf1.get_variable("pinned", [2, 1], initializer=tf1.ones_initializer())
        with tf1.device("/CPU:1"):
            loss = tf.reduce_mean(tf.matmul(x, w) ** 2)
            train = tf1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        init = tf1.global_variables_initializer()
    values = np.random.default_rng(1).normal(size=(6, 8, 2)).astype(np.float32)

    def trained(session: Any) -> np.ndarray:
        with session:
            session.run(init)
            for rows in values:
                session.run(train, {x: rows})
            return np.asarray(session.run(w))

    config = tf1.ConfigProto(allow_soft_placement=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = trained(
            tensorbow.TensorBowSession(graph=graph, config=config, options=options(shard=[x]))
        )
    texts = [str(warning.message) for warning in caught]
    assert any("one learner only: variable 'pinned'" in text for text in texts), texts
    np.testing.assert_array_equal(found, trained(tf1.Session(graph=graph, config=config)))


def failures_are_discarded(emulator: Emulator) -> None:
    """A failing task leaves no trace in the central model."""
    emulator.start()
    program = Program()
    with new_session(program) as session:
        session.run(program.init)
        session.run(program.train, program.feeds(0))
        before = session.run(program.weights)
        bad = program.feeds(1)
        bad[program.y][-1] = 99
        try:
            session.run(program.train, bad)
            raise AssertionError("a label out of range went through")
        except tf.errors.InvalidArgumentError:
            pass
        assert_same(before, session.run(program.weights))
        for number in (2, 3):  # the central model receives an update one run later
            session.run(program.train, program.feeds(number))
        after = session.run(program.weights)
        assert not np.array_equal(after[0], before[0]) and np.isfinite(after[0]).all()


def state_goes_on(emulator: Emulator) -> None:
    """Saves and loads a state, and saves one by a Saver that stock TensorFlow reads."""
    emulator.start()
    program = Program("adam", True)
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "state")
        with new_session(program) as session:
            session.run(program.init)
            for number in range(4):
                session.run(program.train, program.feeds(number))
            session.save_state(path)
            for number in range(4, 8):
                session.run(program.train, program.feeds(number))
            expected = values(session, program)
            saved = program.saver.save(session, str(pathlib.Path(folder) / "model"))
        with new_session(program) as session:
            session.load_state(path)
            for number in range(4, 8):
                session.run(program.train, program.feeds(number))
            assert_same(values(session, program), expected)
        config = tf1.ConfigProto(allow_soft_placement=True)
        with tf1.Session(graph=program.graph, config=config) as session:
            program.saver.restore(session, saved)
            assert_same(session.run([*program.weights, program.step]), expected[-3:])


def memory_is_refused(emulator: Emulator) -> None:
    """Checks that learners keep to equal shares of a device's memory; errors name their number."""
    emulator.start(memory_bytes=64 << 10)
    program = Program()
    with new_session(program) as session:
        session.run(program.init)
        try:
            session.run(program.train, program.feeds(0, rows=2000))
            raise AssertionError("32 KiB were enough for 1000 rows")
        except tf.errors.ResourceExhaustedError as error:
            text = str(error)
            assert "limit is 32.0 KiB: 2 learners" in text, text
            assert "learners_per_device" in text, text


def devices_and_learners(emulator: Emulator) -> None:
    """Checks the number of learners, and ways to stay on the CPU."""
    emulator.start(number=2)
    program = Program()
    with new_session(program, learners_per_device=None) as session:
        assert session.num_learners == 4 and not session.tunes_learners
    with new_session(program) as session:
        assert session.num_learners == 4
        assert session.learner_devices == ["emulated"] * 4
        assert not session.tunes_learners
        session.run(program.init)
        session.run(program.train, program.feeds(0))
        learners = session.metrics().learners
        assert [learner.tasks for learner in learners] == [1] * 4
        assert all(learner.spread > 0 for learner in learners)
    used = emulator.transfers
    config = tf1.ConfigProto(device_count={"GPU": 0}, allow_soft_placement=True)
    with tensorbow.TensorBowSession(
        graph=program.graph, config=config, options=options()
    ) as session:
        assert session.num_learners == 2
        assert session.learner_devices == ["/job:localhost/replica:0/task:0/device:CPU:0"] * 2
        session.run(program.init)
        session.run(program.train, program.feeds(0))
    assert emulator.transfers == used
    try:
        new_session(program, synchroniser=tensorbow.SSGD())
        raise AssertionError("S-SGD was accepted")
    except tf.errors.UnimplementedError as error:
        assert "device_count" in str(error)


def reducer_is_chosen(emulator: Emulator) -> None:
    """Checks the reducer of the averages of several devices."""
    emulator.start(number=2)
    program = Program()
    for reducer in ("host", "auto"):
        trained(program, steps=1, gpu_reducer=reducer)
        assert emulator.reduces_on_host == (reducer == "host")
    try:
        options(gpu_reducer="nccl")
        raise AssertionError("accepted")
    except ValueError as error:
        assert '"auto" or "host"' in str(error)


CASES: dict[str, Callable[[Emulator], None]] = (
    {
        case.__name__: case
        for case in (
            same_as_on_the_cpu,
            one_learner_is_stock,
            data_from_the_host,
            variables_of_the_cpu_are_trained_by_one_learner,
            failures_are_discarded,
            state_goes_on,
            memory_is_refused,
            devices_and_learners,
            reducer_is_chosen,
        )
    }
    | accelerator_layout_cases.CASES
    | recording_cases.CASES
)


def execute(case: str, library: str) -> None:
    """Executes a case. `library`: the emulator; see emulated_sessions.py."""
    CASES[case](Emulator(library))
