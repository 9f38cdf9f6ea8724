"""The cases of accelerator_test.py, each executed in a process of its own.

python -m tests.python.accelerator_cases CASE LIBRARY

The library emulates accelerators (tests/cc/emulated_device.h): a learner's work
for the device "/CPU:1" is executed there, everything else on the learner's CPU.
"""

from __future__ import annotations

import ctypes
import pathlib
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import tensorbow

tf1 = tf.compat.v1
ROWS = 12


class Emulator:
    """The library."""

    def __init__(self, path: str) -> None:
        self.ops = tf.load_op_library(path)
        self._library = ctypes.CDLL(path)

    def start(self, number: int = 1, memory_bytes: int = 1 << 40) -> None:
        """New sessions have so many accelerators."""
        self._library.EmulateAccelerators(number, ctypes.c_int64(memory_bytes))

    def record(self, waits: bool = False, unrecordable: str = "") -> None:
        """Recordings contain waits or not; the op of this name breaks them."""
        self._library.EmulateRecordings(int(waits), unrecordable.encode())

    @property
    def recorded(self) -> tuple[int, int]:
        """Tasks that were recorded, and that were replayed, since record()."""
        return self._library.NumRecordings(), self._library.NumReplays()

    @property
    def transfers(self) -> tuple[int, int]:
        """Uploads and downloads so far."""
        return self._library.NumUploads(), self._library.NumDownloads()

    def recorder_failure(self) -> str:
        """What is wrong with recordings, by test; empty if nothing."""
        text = ctypes.create_string_buffer(4000)
        self._library.TestRecorder(text, len(text))
        return text.value.decode()


class Program:
    """A small network on the accelerator, with a step counter on the CPU."""

    def __init__(self, optimiser: str = "momentum", resources: bool = False) -> None:
        self.graph = tf1.Graph()
        with self.graph.as_default():
            tf1.set_random_seed(3)
            with tf1.device("/CPU:0"):
                self.step = tf1.train.create_global_step()
            with tf1.device("/CPU:1"), tf1.variable_scope("net", use_resource=resources):
                self.x = tf1.placeholder(tf.float32, [None, 6], "x")
                self.y = tf1.placeholder(tf.int32, [None], "y")
                w1 = tf1.get_variable("w1", [6, 8])
                w2 = tf1.get_variable("w2", [8, 3])
                self.logits = tf.matmul(tf.tanh(tf.matmul(self.x, w1)), w2)
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels=self.y, logits=self.logits
                )
                self.loss = tf.reduce_mean(losses)
                made = {
                    "sgd": lambda: tf1.train.GradientDescentOptimizer(0.2),
                    "momentum": lambda: tf1.train.MomentumOptimizer(0.1, 0.9),
                    "adam": lambda: tf1.train.AdamOptimizer(0.02),
                }[optimiser]()
                self.train = made.minimize(self.loss, global_step=self.step)
            self.weights = [w1, w2]
            self.init = tf1.global_variables_initializer()
            self.saver = tf1.train.Saver()

    def feeds(self, number: int, rows: int = ROWS) -> dict[Any, np.ndarray]:
        """Of the run of that number."""
        random = np.random.default_rng(number)
        return {
            self.x: random.normal(size=(rows, 6)).astype(np.float32),
            self.y: random.integers(0, 3, rows).astype(np.int32),
        }


def options(**more: Any) -> tensorbow.Options:
    """Two learners that do the same every time."""
    return tensorbow.Options(**({"learners_per_device": 2, "scheduling": "round_robin"} | more))


def new_session(program: Program, **more: Any) -> tensorbow.TensorBowSession:
    """With these options. Its own ConfigProto: TensorFlow's default one, on a machine
    without GPUs, asks to be kept off them."""
    return tensorbow.TensorBowSession(
        graph=program.graph,
        config=tf1.ConfigProto(allow_soft_placement=True),
        options=options(**more),
    )


def values(session: Any, program: Program) -> list[np.ndarray]:
    """All replicas and the central model."""
    made = [
        session.learner_value(weight, learner)
        for weight in program.weights
        for learner in range(session.num_learners)
    ]
    return made + session.run([*program.weights, program.step])


def trained(program: Program, steps: int = 8, **more: Any) -> list[np.ndarray]:
    """What training leaves behind, the fetched losses and logits with it."""
    with new_session(program, **more) as session:
        session.run(program.init)
        fetched = []
        for number in range(steps):
            _, loss, logits = session.run(
                [program.train, program.loss, program.logits], program.feeds(number)
            )
            fetched += [loss, logits]
        return values(session, program) + fetched


def assert_same(mine: list[np.ndarray], other: list[np.ndarray]) -> None:
    """Bit for bit."""
    assert len(mine) == len(other)
    for a, b in zip(mine, other):
        np.testing.assert_array_equal(a, b)


def same_as_on_the_cpu(emulator: Emulator) -> None:
    """Replicas, central model, losses: as without an accelerator."""
    kinds: list[tuple[str, bool, dict[str, Any]]] = [
        ("momentum", False, {}),
        ("momentum", True, {"batch_size": 2}),
        ("adam", True, {}),
        ("sgd", False, {"batch_size": 5}),
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
    """tf.data and Python functions run on the CPU, the model does not."""
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
        graph=graph, config=tf1.ConfigProto(allow_soft_placement=True), options=options()
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
        for number in (2, 3):  # the central model takes an update in one run later
            session.run(program.train, program.feeds(number))
        after = session.run(program.weights)
        assert not np.array_equal(after[0], before[0]) and np.isfinite(after[0]).all()


def state_goes_on(emulator: Emulator) -> None:
    """Saved, loaded, and saved by a Saver that stock TensorFlow reads."""
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
    """Learners keep to equal shares of a device's memory; errors say how many there are."""
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
    """How many learners there are, and how to stay on the CPU."""
    emulator.start(number=2)
    program = Program()
    with new_session(program, learners_per_device=None) as session:
        assert session.num_learners == 4
    with new_session(program) as session:
        assert session.num_learners == 4
        assert session.learner_devices == ["emulated"] * 4
        session.run(program.init)
        session.run(program.train, program.feeds(0))
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


class OnDevice:
    """A regression of which every op is on the accelerator, so that it can be recorded.

    `wrap` is applied to its input; a variable `scale` is read, not trained.
    """

    def __init__(
        self,
        optimiser: str = "momentum",
        resources: bool = False,
        wrap: Callable[[Any], Any] = lambda x: x,
    ) -> None:
        self.graph = tf1.Graph()
        with (
            self.graph.as_default(),
            tf1.device("/CPU:1"),
            tf1.variable_scope("net", use_resource=resources),
        ):
            tf1.set_random_seed(3)
            self.x = tf1.placeholder(tf.float32, [None, 6], "x")
            self.y = tf1.placeholder(tf.float32, [None, 3], "y")
            w1 = tf1.get_variable("w1", [6, 8])
            w2 = tf1.get_variable("w2", [8, 3])
            scale = tf1.get_variable("scale", initializer=np.float32(1), trainable=False)
            hidden = tf.tanh(tf.matmul(wrap(self.x) * scale, w1), name="hidden")
            self.out = tf.matmul(hidden, w2)
            self.loss = tf.reduce_mean((self.out - self.y) ** 2)
            made = {
                "sgd": lambda: tf1.train.GradientDescentOptimizer(0.2),
                "momentum": lambda: tf1.train.MomentumOptimizer(0.1, 0.9),
                "adam": lambda: tf1.train.AdamOptimizer(0.02),
            }[optimiser]()
            self.train = made.minimize(self.loss)
            with tf.control_dependencies([self.train]):
                self.train_and_scale = tf1.assign(scale, scale * 1.5).op
            self.weights = [w1, w2, scale]
            self.init = tf1.global_variables_initializer()

    def feeds(self, number: int) -> dict[Any, np.ndarray]:
        """Of the run of that number."""
        random = np.random.default_rng(number)
        return {
            self.x: random.normal(size=(ROWS, 6)).astype(np.float32),
            self.y: random.normal(size=(ROWS, 3)).astype(np.float32),
        }


def on_device(
    program: OnDevice, graphs: str, scaled: tuple[int, ...] = ()
) -> tuple[list[np.ndarray], list[str]]:
    """What 12 runs leave behind and fetch, and the warnings about recordings.

    Runs whose number is in `scaled` assign to `scale` as well.
    """
    with (
        warnings.catch_warnings(record=True) as caught,
        new_session(program, cuda_graphs=graphs) as session,
    ):
        warnings.simplefilter("always")
        session.run(program.init)
        found = []
        for number in range(12):
            train = program.train_and_scale if number in scaled else program.train
            found += session.run([train, program.loss, program.out], program.feeds(number))[1:]
        found += session.run(program.weights)
        for learner in range(session.num_learners):
            found += [session.learner_value(w, learner) for w in program.weights]
    texts = [str(warning.message) for warning in caught]
    return found, [text for text in texts if "cuda_graphs" in text]


def recorder(emulator: Emulator) -> None:
    """The C++ tests of emulated_accelerator.cc."""
    assert emulator.recorder_failure() == ""


def recorded_tasks(emulator: Emulator) -> None:
    """Replays leave the same bits as executing op by op, with both forms of waiting."""
    emulator.start()
    for optimiser, resources in (
        ("sgd", True),
        ("sgd", False),
        ("momentum", True),
        ("momentum", False),
        ("adam", False),
    ):
        expected, _ = on_device(OnDevice(optimiser, resources), "off")
        for waits in (False, True):
            emulator.record(waits)
            found, texts = on_device(OnDevice(optimiser, resources), "on")
            assert texts == [], texts
            # Two learners; three tasks each are executed, the others replayed.
            assert emulator.recorded == (2, 18), (optimiser, resources, emulator.recorded)
            assert_same(found, expected)


def moving_variables(emulator: Emulator) -> None:
    """Variables that an op gives another buffer are never read or written at the old one."""
    emulator.start()
    # Every task assigns to Adam's powers of beta.
    expected, _ = on_device(OnDevice("adam", True), "off")
    emulator.record()
    found, texts = on_device(OnDevice("adam", True), "on")
    assert emulator.recorded == (0, 0)
    assert len(texts) == 1 and "_power" in texts[0], texts
    assert_same(found, expected)
    # One run does, of a variable that the recorded tasks only read.
    expected, _ = on_device(OnDevice("momentum", True), "off", scaled=(6,))
    emulator.record()
    found, texts = on_device(OnDevice("momentum", True), "on", scaled=(6,))
    assert texts == []
    # Recorded, replayed as numbers 3 to 5; then 3 warm-up tasks, recorded again.
    assert emulator.recorded == (4, 10), emulator.recorded
    assert_same(found, expected)


def unrecordable_ops(emulator: Emulator) -> None:
    """Tasks with ops that need the host are executed op by op, and say why."""
    emulator.start()

    def check(
        text: str,
        recordings: int,
        wrap: Callable[[Any], Any] = lambda x: x,
        breaks: str = "",
        resources: bool = True,
    ) -> None:
        expected, _ = on_device(OnDevice("momentum", resources, wrap), "off")
        emulator.record(unrecordable=breaks)
        found, texts = on_device(OnDevice("momentum", resources, wrap), "on")
        assert emulator.recorded == (recordings, 0), emulator.recorded
        # Said once, whichever learner finds it.
        assert len(texts) == 1 and text in texts[0], texts
        assert_same(found, expected)

    check("looks at values on the host", 0, lambda x: tf.debugging.check_numerics(x, "x"))
    check("brings a value to the host", 0, emulator.ops.emulated_to_host)
    check("keeps a state on the host", 0, through_an_array)
    # What only recording shows: each learner records once and executes that task.
    check("goes on on the host", 2, emulator.ops.emulated_async)
    for resources in (False, True):
        check("net/hidden", 2, breaks="net/hidden", resources=resources)
        last = "net/Momentum/update_net/w2/ResourceApplyMomentum"
        if not resources:
            last = "net/Momentum/update_net/w2/ApplyMomentum"
        check(last, 2, breaks=last, resources=resources)


def through_an_array(x: Any) -> Any:
    """x by way of a TensorArray."""
    handle, flow = tf.raw_ops.TensorArrayV3(size=1, dtype=tf.float32)
    flow = tf.raw_ops.TensorArrayWriteV3(handle=handle, index=0, value=x, flow_in=flow)
    read = tf.raw_ops.TensorArrayReadV3(handle=handle, index=0, flow_in=flow, dtype=tf.float32)
    return tf.reshape(read, [-1, 6])


def reasons_against_recording(emulator: Emulator) -> None:
    """Tasks that are partly on the CPU, and options that exclude recording, say so."""
    emulator.start()
    program = Program()
    with (
        new_session(program, cuda_graphs="on") as session,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        session.run(program.init)
        for number in range(6):
            session.run(program.train, program.feeds(number))
        every_other = tensorbow.EASGD(sync_period=2)
        with new_session(program, cuda_graphs="on", synchroniser=every_other) as seldom:
            seldom.run(program.init)
    texts = [str(warning.message) for warning in caught]
    assert any("cuda_graphs" in text and "sync_period" in text for text in texts), texts
    assert any("cuda_graphs" in text and "is executed on the CPU" in text for text in texts), texts


CASES: dict[str, Callable[[Emulator], None]] = {
    case.__name__: case
    for case in (
        same_as_on_the_cpu,
        one_learner_is_stock,
        data_from_the_host,
        failures_are_discarded,
        state_goes_on,
        memory_is_refused,
        devices_and_learners,
        recorder,
        recorded_tasks,
        moving_variables,
        unrecordable_ops,
        reasons_against_recording,
    )
}

if __name__ == "__main__":
    CASES[sys.argv[1]](Emulator(sys.argv[2]))
    print("ok")
