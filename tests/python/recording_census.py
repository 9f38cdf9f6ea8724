"""The obstacles that keep learning tasks of programs from being recorded, found without a GPU.

A program runs on stock sessions. Each of its runs is repeated in a session whose learners are on a
GPU that executes nothing (tests/cc/idle_gpu.cc). There a learning run is compiled, tells what keeps
its tasks from being recorded, and fails.

    python -m tests.python.recording_census

writes the table of all programs, tests/recording_census.txt.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import pathlib
import re
import tempfile
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf

import tensorbow
from tensorbow import models
from tests.python import own_process
from tests.python.messages import without_lines
from tests.python.native_library import ROOT, compile_library

tf1 = tf.compat.v1

ROWS = 32
_REPETITIONS = 4  # of a run; learners compile for rows that come again
_TIMEOUT_MS = 2000
_CPU = "learners do not execute it"


class Census:
    """The findings about a program, and the sessions that make them."""

    def __init__(self) -> None:
        self._sessions: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._repeated: collections.Counter[Any] = collections.Counter()
        self._full: set[Any] = set()
        self._obstacles: set[str] = set()
        self._learns = False

    @property
    def findings(self) -> list[str]:
        """Returns the obstacles of all learning runs; "none" if they have none."""
        return sorted(self._obstacles) or ["none"] * self._learns

    def session(self, graph: Any) -> Any:
        """Returns the session on the idle GPU for a graph."""
        if graph not in self._sessions:
            config = tf1.ConfigProto(allow_soft_placement=True, operation_timeout_in_ms=_TIMEOUT_MS)
            self._sessions[graph] = tensorbow.TensorBowSession(
                graph=graph, config=config, options=options()
            )
        return self._sessions[graph]

    def repeat(self, graph: Any, fetches: Any, feeds: Any) -> None:
        """Makes a run of the program in the session on the idle GPU."""
        key = (id(graph), str(fetches), str(sorted(map(str, feeds or ()))))
        if threading.current_thread() is not threading.main_thread():  # fills a queue
            if key not in self._full:
                try:
                    self.session(graph).run(fetches, feeds)
                except tf.errors.OpError:
                    self._full.add(key)
            return
        self._repeated[key] += 1
        if self._repeated[key] <= _REPETITIONS:
            self._judge(self.session(graph), fetches, feeds)

    def _judge(self, session: Any, fetches: Any, feeds: Any) -> None:
        """Keeps what the run says of its tasks, if it learns."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                session.run(fetches, feeds)
            except (tf.errors.OpError, RuntimeError) as error:
                self._learns |= "executes nothing" in str(error)
            session._warn()  # a run that fails leaves its warnings to the next one
        for text in (str(warning.message) for warning in caught):
            if "cuda_graphs" in text:
                self._obstacles.add(without_lines(text.split("because ", 1)[1]))
            elif "one learner only" in text:
                self._obstacles.add(_CPU)


def options() -> tensorbow.Options:
    """Returns the options of learners whose tasks are to be recorded."""
    return tensorbow.Options(learners_per_device=2, cuda_graphs="on", synchroniser=tensorbow.SMA())


@contextlib.contextmanager
def _repeating(census: Census) -> Iterator[None]:
    """Repeats what stock sessions run."""
    base: Any = tf1.Session.__mro__[1]
    run, from_options = base.run, base._make_callable_from_options

    def run_twice(self: Any, fetches: Any, feed_dict: Any = None, *more: Any, **named: Any) -> Any:
        if not isinstance(self, tensorbow.TensorBowSession):
            census.repeat(self.graph, fetches, feed_dict)
        return run(self, fetches, feed_dict, *more, **named)

    def callable_of_run(self: Any, fetches: Any, feed_list: Any = None, **_: Any) -> Any:
        return lambda *values: self.run(fetches, dict(zip(feed_list or (), values)))

    def callable_twice(self: Any, options: Any) -> Any:
        execute = from_options(self, options)
        # A target is fetched by its operation.
        targets = [self.graph.get_operation_by_name(name) for name in options.target]

        def execute_twice(*values: Any, **named: Any) -> Any:
            census.repeat(self.graph, [*options.fetch, *targets], dict(zip(options.feed, values)))
            return execute(*values, **named)

        return execute_twice

    changes = {
        "run": run_twice,
        "make_callable": callable_of_run,
        "_make_callable_from_options": callable_twice,
    }
    with contextlib.ExitStack() as stack:
        for name, change in changes.items():
            stack.enter_context(mock.patch.object(base, name, change))
        yield


def of_program(name: str) -> list[str]:
    """Returns the findings about a program of tests/programs."""
    from tests.programs import _harness

    census = Census()
    with _repeating(census):
        _harness.run(name, seed=1)
    return census.findings


# ------------------------------------------------------------------------------------- networks


def _model(name: str, resources: bool) -> models.Program:
    shape = (28, 28, 1) if name == "lenet" else (32, 32, 3)
    return models.build(
        name, shape, optimiser=lambda: tf1.train.MomentumOptimizer(0.1, 0.9), use_resource=resources
    )


def _perceptron(resources: bool, dropout: bool = False) -> models.Program:
    """Returns a network of three layers with Adam."""
    graph = tf1.Graph()
    with graph.as_default(), tf1.variable_scope("net", use_resource=resources):
        inputs = tf1.placeholder(tf.float32, [None, 784], "inputs")
        labels = tf1.placeholder(tf.int32, [None], "labels")
        hidden = inputs
        for number in range(2):
            weights = tf1.get_variable(f"w{number}", [int(hidden.shape[1]), 64])
            bias = tf1.get_variable(f"b{number}", [64], initializer=tf1.zeros_initializer())
            hidden = tf.nn.relu(tf.matmul(hidden, weights) + bias)
            if dropout:
                hidden = tf.nn.dropout(hidden, rate=0.5)
        scores = tf.matmul(hidden, tf1.get_variable("w", [64, 10]))
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores)
        loss = tf.reduce_mean(losses)
        train = tf1.train.AdamOptimizer().minimize(loss)
        init = tf1.global_variables_initializer()
    return models.Program(graph, inputs, labels, loss, train, loss, init)


_NETWORKS: dict[str, Callable[[bool], models.Program]] = {
    "LeNet": lambda resources: _model("lenet", resources),
    "ResNet-20": lambda resources: _model("resnet20", resources),
    "ResNet-32": lambda resources: _model("resnet32", resources),
    "MLP, Adam": _perceptron,
    "MLP, Adam, dropout": lambda resources: _perceptron(resources, dropout=True),
}
NETWORKS = [f"{name}, {kind}" for name in _NETWORKS for kind in ("reference", "resource")]


def of_network(name: str) -> list[str]:
    """Returns the findings about one of `NETWORKS`, with an update and its loss."""
    network, kind = name.rsplit(", ", 1)
    program = _NETWORKS[network](kind == "resource")
    census = Census()
    session = census.session(program.graph)
    session.run(program.init)
    feeds = {
        program.inputs: np.zeros([ROWS, *map(int, program.inputs.shape[1:])], np.float32),
        program.labels: np.zeros([ROWS], np.int32),
    }
    for _ in range(_REPETITIONS):
        census.repeat(program.graph, [program.train_op, program.loss], feeds)
    return census.findings


# ---------------------------------------------------------------------------------------- Keras

KERAS = ["logistic", "lenet", "resnet20", "resnet32"]


def of_keras(name: str) -> list[str]:
    """Returns the findings about the training step of a Keras model of the benchmarks.

    `fit` keeps off GPUs; this is about the graph of its step.
    """
    import keras

    from tensorbow.cli.train import keras_networks

    tf1.enable_eager_execution()
    shape = (28, 28, 1) if name in ("logistic", "lenet") else (32, 32, 3)
    network = keras_networks.build(name, shape, 10)
    tensorbow.keras.replicate(network, options())
    network.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = np.zeros((2 * ROWS, *shape), np.float32), np.zeros(2 * ROWS, np.int32)
    network.fit(x, y, batch_size=ROWS, verbose=0)
    graph = network._tensorbow.session.graph
    step = network._tensorbow.program.step
    census = Census()
    with graph.as_default():
        handles = [op for op in graph.get_operations() if op.type == "VarHandleOp"]
        init = [
            tf.raw_ops.AssignVariableOp(
                resource=handle.outputs[0],
                value=tf.zeros(handle.get_attr("shape"), handle.get_attr("dtype")),
            )
            for handle in handles
        ]
    census.session(graph).run(init)
    feeds = dict(zip(step.inputs, (x[:ROWS], y[:ROWS])))
    for _ in range(_REPETITIONS):
        census.repeat(graph, [step.train_op, step.outputs["loss"]], feeds)
    return census.findings


def of(name: str, library: str) -> list[str]:
    """Returns the findings about a row of the table. `library`: that of idle_gpu.cc."""
    tf.load_op_library(library)
    ctypes.CDLL(library).OfferIdleGpu()
    kind, program = name.split(": ")
    of_kind = {"program": of_program, "network": of_network, "keras": of_keras}[kind]
    # TensorFlow numbers the nodes that it inserts.
    return [re.sub(r"/TensorBow\.\d+", "/TensorBow", finding) for finding in of_kind(program)]


# ------------------------------------------------------------------------------------- the table

TABLE = ROOT / "tests" / "recording_census.txt"


def names() -> list[str]:
    """Returns the rows of the table."""
    from tests.programs import _judgement

    kinds = {"network": NETWORKS, "keras": KERAS, "program": _judgement.names()}
    return [f"{kind}: {name}" for kind, names in kinds.items() for name in names]


def rows() -> dict[str, list[str]]:
    """Returns the findings that the table has, by name."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in TABLE.read_text().splitlines():
        if not line.startswith("    "):
            name = line
            found[name] = []
        else:
            found[name].append(line.strip())
    return found


def selection() -> list[str]:
    """Returns the programs of `make test`: all networks, and the first of each kind of findings.

    Findings are of a kind if they differ only in the names of operations.
    """
    found = rows()
    kinds: dict[tuple[str, ...], str] = {}
    for name, findings in found.items():
        kind = tuple(re.sub("^'.*?' ", "", finding) for finding in findings)
        kinds.setdefault(() if name.startswith("network") else kind, name)
    return [name for name in found if name.startswith("network") or name in kinds.values()]


def main() -> None:
    """Writes the table."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        library = compile_library("idle_gpu.cc", pathlib.Path(folder))
        for name in names():
            lines += [name, *(f"    {text}" for text in own_process.call(of, name, str(library)))]
    TABLE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
