"""Sessions on emulated accelerators, for accelerator_cases.py and recording_cases.py.

The emulator is a library (tests/cc/emulated_device.h): a learner's work for the device
"/CPU:1" is executed there, everything else on the learner's CPU.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import tensorflow as tf

import tensorbow

tf1 = tf.compat.v1
ROWS = 12


class Emulator:
    """The library that emulates accelerators."""

    def __init__(self, path: str) -> None:
        self.ops = tf.load_op_library(path)
        self._library = ctypes.CDLL(path)

    def start(self, number: int = 1, memory_bytes: int = 1 << 40) -> None:
        """Gives new sessions this number of accelerators."""
        self._library.EmulateAccelerators(number, ctypes.c_int64(memory_bytes))

    def record(self, waits: bool = False, unrecordable: str = "") -> None:
        """Allows waits in recordings or not; the op of this name breaks them."""
        self._library.EmulateRecordings(int(waits), unrecordable.encode())

    @property
    def recorded(self) -> tuple[int, int]:
        """Returns the numbers of recorded and of replayed tasks since record()."""
        return self._library.NumRecordings(), self._library.NumReplays()

    @property
    def reduces_on_host(self) -> bool:
        """Returns whether the last session's averages were to be reduced on the host."""
        return bool(self._library.ReducesOnHost())

    @property
    def transfers(self) -> tuple[int, int]:
        """Returns the numbers of uploads and downloads so far."""
        return self._library.NumUploads(), self._library.NumDownloads()

    def recorder_failure(self) -> str:
        """Returns the failures of recordings, by test; empty if there are none."""
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
        """Returns the feeds of the run of that number."""
        random = np.random.default_rng(number)
        return {
            self.x: random.normal(size=(rows, 6)).astype(np.float32),
            self.y: random.integers(0, 3, rows).astype(np.int32),
        }


def options(**more: Any) -> tensorbow.Options:
    """Returns options for two learners that always do the same."""
    return tensorbow.Options(**({"learners_per_device": 2, "scheduling": "round_robin"} | more))


def new_session(program: Program, **more: Any) -> tensorbow.TensorBowSession:
    """Makes a session with these options. It has a ConfigProto of its own: TensorFlow's default, on
    a machine without GPUs, excludes them."""
    return tensorbow.TensorBowSession(
        graph=program.graph,
        config=tf1.ConfigProto(allow_soft_placement=True),
        options=options(**more),
    )


def values(session: Any, program: Program) -> list[np.ndarray]:
    """Returns all replicas and the central model."""
    made = [
        session.learner_value(weight, learner)
        for weight in program.weights
        for learner in range(session.num_learners)
    ]
    return made + session.run([*program.weights, program.step])


def trained(program: Program, steps: int = 8, **more: Any) -> list[np.ndarray]:
    """Returns the final values, the fetched losses and the logits of a training."""
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
    """Compares bit for bit."""
    assert len(mine) == len(other)
    for a, b in zip(mine, other):
        np.testing.assert_array_equal(a, b)
