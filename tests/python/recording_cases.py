"""Cases of accelerator_test.py about recorded learning tasks (`cuda_graphs`).

accelerator_cases.py executes them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import tensorbow
from tests.python.emulated_sessions import ROWS, Emulator, Program, assert_same, new_session

tf1 = tf.compat.v1


class OnDevice:
    """A regression of which every op is on the accelerator, so that it can be recorded.

    `wrap` is applied to its input; a variable `scale` is read, not trained. With `classes`
    it is a classification, which feeds labels of 32-bit integers.
    """

    def __init__(
        self,
        optimiser: str = "momentum",
        resources: bool = False,
        wrap: Callable[[Any], Any] = lambda x: x,
        classes: bool = False,
    ) -> None:
        self._classes = classes
        self.graph = tf1.Graph()
        with (
            self.graph.as_default(),
            tf1.device("/CPU:1"),
            tf1.variable_scope("net", use_resource=resources),
        ):
            tf1.set_random_seed(3)
            self.x = tf1.placeholder(tf.float32, [None, 6], "x")
            if classes:
                self.y = tf1.placeholder(tf.int32, [None], "y")
            else:
                self.y = tf1.placeholder(tf.float32, [None, 3], "y")
            w1 = tf1.get_variable("w1", [6, 8])
            w2 = tf1.get_variable("w2", [8, 3])
            scale = tf1.get_variable("scale", initializer=np.float32(1), trainable=False)
            hidden = tf.tanh(tf.matmul(wrap(self.x) * scale, w1), name="hidden")
            self.out = tf.matmul(hidden, w2)
            if classes:
                self.loss = tf.reduce_mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(self.y, self.out)
                )
            else:
                self.loss = tf.reduce_mean((self.out - self.y) ** 2)
            made = {
                "sgd": lambda: tf1.train.GradientDescentOptimizer(0.2),
                "momentum": lambda: tf1.train.MomentumOptimizer(0.1, 0.9),
                "adam": lambda: tf1.train.AdamOptimizer(0.02),
            }[optimiser]()
            self.train = made.minimize(self.loss)
            with tf.control_dependencies([self.train]):
                self.train_and_scale = tf1.assign(scale, scale * 1.5).op
            names = [op.name for op in self.graph.get_operations()]
            # As the update reads them.
            reads = [n for n in names if n.endswith("ReadVariableOp") and "update_net/w1" in n]
            self.powers = [tf.identity(self.graph.get_tensor_by_name(f"{n}:0")) for n in reads]
            self.weights = [w1, w2, scale]
            self.init = tf1.global_variables_initializer()

    def feeds(self, number: int, rows: int = ROWS) -> dict[Any, np.ndarray]:
        """Returns the feeds of the run of that number."""
        random = np.random.default_rng(number)
        x = random.normal(size=(rows, 6)).astype(np.float32)
        if self._classes:
            return {self.x: x, self.y: random.integers(3, size=rows).astype(np.int32)}
        return {self.x: x, self.y: random.normal(size=(rows, 3)).astype(np.float32)}


def on_device(
    program: OnDevice,
    graphs: str,
    scaled: tuple[int, ...] = (),
    rows: tuple[int, ...] = (ROWS,) * 12,
    powers: bool = False,
) -> tuple[list[np.ndarray], list[str]]:
    """Returns the final values and fetches of runs, and the warnings about recordings.

    Runs whose number is in `scaled` assign to `scale` as well. `rows`: of each run. `powers`:
    whether runs fetch Adam's powers of beta.
    """
    with (
        warnings.catch_warnings(record=True) as caught,
        new_session(program, cuda_graphs=graphs, shard=[program.x, program.y]) as session,
    ):
        warnings.simplefilter("always")
        session.run(program.init)
        found = []
        for number, count in enumerate(rows):
            train = program.train_and_scale if number in scaled else program.train
            feeds = program.feeds(number, count)
            fetches = [train, program.loss, program.out, *(program.powers if powers else [])]
            found += session.run(fetches, feeds)[1:]
        found += session.run(program.weights)
        for learner in range(session.num_learners):
            found += [session.learner_value(w, learner) for w in program.weights]
    texts = [str(warning.message) for warning in caught]
    return found, [text for text in texts if "cuda_graphs" in text]


def recorder(emulator: Emulator) -> None:
    """Runs the C++ tests of emulated_accelerator.cc."""
    assert emulator.recorder_failure() == ""


def recorded_tasks(emulator: Emulator) -> None:
    """Checks that replays give the bits of executing op by op, with both forms of waiting."""
    emulator.start()
    for case in (
        {"optimiser": "sgd", "resources": True},
        {"optimiser": "sgd", "resources": False},
        {"optimiser": "momentum", "resources": True},
        {"optimiser": "momentum", "resources": False},
        {"optimiser": "adam", "resources": False},
        {"optimiser": "sgd", "classes": True},
    ):
        expected, _ = on_device(OnDevice(**case), "off")
        for waits in (False, True):
            emulator.record(waits)
            found, texts = on_device(OnDevice(**case), "on")
            assert texts == [], texts
            # Two learners; three tasks each are executed, the others replayed.
            assert emulator.recorded == (2, 18), (case, emulator.recorded)
            assert_same(found, expected)


def recurring_rows(emulator: Emulator) -> None:
    """Checks that tasks are recorded for three numbers of rows, each after three runs."""
    emulator.start()
    for rows, recorded in (
        # Two runs, a warm-up, then two replays, of each number.
        ((12, 8) * 5, (4, 8)),
        # Learners have 5 and 4 rows: each records one size only.
        ((9,) * 6, (2, 6)),
        # Only three sizes are recorded.
        ((12, 8, 4, 6) * 4, (6, 6)),
        (tuple(range(4, 64, 4)), (0, 0)),
    ):
        expected, _ = on_device(OnDevice(), "off", rows=rows)
        emulator.record()
        found, texts = on_device(OnDevice(), "on", rows=rows)
        assert texts == [], texts
        assert emulator.recorded == recorded, (rows, emulator.recorded)
        assert_same(found, expected)


def moving_variables(emulator: Emulator) -> None:
    """Checks that variables moved by an op are never read or written at the old address."""
    emulator.start()
    # Every task assigns to Adam's powers of beta, which are read before. They are fetched, too:
    # the values of before the task.
    for fetched in (False, True):
        expected, _ = on_device(OnDevice("adam", True), "off", powers=fetched)
        emulator.record()
        found, texts = on_device(OnDevice("adam", True), "on", powers=fetched)
        assert texts == [], texts
        assert emulator.recorded == (2, 18), emulator.recorded
        assert_same(found, expected)
    # One run does, to a variable that the recorded tasks only read.
    expected, _ = on_device(OnDevice("momentum", True), "off", scaled=(6,))
    emulator.record()
    found, texts = on_device(OnDevice("momentum", True), "on", scaled=(6,))
    assert texts == []
    # Recorded, replayed as numbers 3 to 5; then a warm-up task, recorded again.
    assert emulator.recorded == (4, 14), emulator.recorded
    assert_same(found, expected)


def unrecordable_ops(emulator: Emulator) -> None:
    """Checks that tasks with ops that need the host are executed op by op, with the reason."""
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
        # One warning, whichever learner finds it.
        assert len(texts) == 1 and text in texts[0], texts
        assert_same(found, expected)

    check("looks at values on the host", 0, lambda x: tf.debugging.check_numerics(x, "x"))
    check("brings a value to the host", 0, emulator.ops.emulated_to_host)
    check("keeps a state on the host", 0, through_an_array)
    # Obstacles that only recording shows: each learner records once and executes that task.
    check("goes on on the host", 2, emulator.ops.emulated_async)
    for resources in (False, True):
        check("net/hidden", 2, breaks="net/hidden", resources=resources)
        last = "net/Momentum/update_net/w2/ResourceApplyMomentum"
        if not resources:
            last = "net/Momentum/update_net/w2/ApplyMomentum"
        check(last, 2, breaks=last, resources=resources)


def through_an_array(x: Any) -> Any:
    """Passes x through a TensorArray."""
    handle, flow = tf.raw_ops.TensorArrayV3(size=1, dtype=tf.float32)
    flow = tf.raw_ops.TensorArrayWriteV3(handle=handle, index=0, value=x, flow_in=flow)
    read = tf.raw_ops.TensorArrayReadV3(handle=handle, index=0, flow_in=flow, dtype=tf.float32)
    return tf.reshape(read, [-1, 6])


def reasons_against_recording(emulator: Emulator) -> None:
    """Checks the reasons of tasks that are partly on the CPU, and of options that exclude
    recording."""
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
        recorder,
        recorded_tasks,
        recurring_rows,
        moving_variables,
        unrecordable_ops,
        reasons_against_recording,
    )
}
