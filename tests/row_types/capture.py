"""Records the learning runs of programs.

    python -m tests.row_types.capture FOLDER

saves all that are at hand, for `report.py`. As a pytest plugin, `-p tests.row_types.capture`, it
saves those of tests in the folder that `TENSORBOW_ROW_TYPES` names.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from tensorbow import session as sessions
from tensorbow._session.plan import RunPlan, flat_feed_dict
from tests.row_types import adversarial
from tests.row_types.runs import LearningRun

tf1 = tf.compat.v1
MOST_RUNS = 25  # runs of a program without a new kind of run, before it is stopped
LARGEST_ARRAY = 4_000_000  # bytes of the largest kept array
LATE_RUN = 71  # of drawn programs: masks hide rows, ramps have begun


class Enough(BaseException):
    """Ends a program whose kinds of runs are known."""


class Recorder:
    """Records every distinct learning run while it is open."""

    def __init__(self, corpus: str, name: str, enough: int = MOST_RUNS) -> None:
        self.corpus, self.name = corpus, name
        self.found: list[LearningRun] = []
        self._keys: set[Any] = set()
        self._enough, self._since = enough, 0

    @contextlib.contextmanager
    def open(self) -> Iterator[Recorder]:
        """Makes sessions of TensorBow report their runs here."""
        base = sessions._LearnerSession
        run = base._run
        recorder = self

        def recording(self: Any, handle: Any, fetches: Any, feed_dict: Any, *rest: Any) -> Any:
            if handle is None and not self._closed and self._graph.version:
                recorder.look(self, fetches, feed_dict)
            return run(self, handle, fetches, feed_dict, *rest)

        base._run = recording
        restore = self._record_keras()
        try:
            yield self
        except Enough:
            pass
        finally:
            base._run = run
            restore()

    def _record_keras(self) -> Any:
        try:
            from tensorbow.keras._program import Program
        except ImportError:
            return lambda: None
        run = Program.run
        recorder = self

        def recording(self: Any, arrays: Any) -> Any:
            step = self.step
            recorder.add(
                self._session,
                list(zip(step.inputs, arrays)),
                self._fetches,
                [step.train_op],
                self.facts,
                [],
            )
            return run(self, arrays)

        Program.run = recording

        def restore() -> None:
            Program.run = run

        return restore

    def look(self, session: Any, fetches: Any, feed_dict: Any) -> None:
        feeds = flat_feed_dict(feed_dict)
        plan = RunPlan(session._graph, fetches, feeds)
        if plan.is_empty:
            return
        if plan.sparse_feeds:
            session._native.add_sparse_feeds(plan.sparse_feeds)
        session._extend_graph()
        facts = session._native.describe_run(
            feeds=[feed.tensor.name for feed in plan.feeds],
            fetches=[tensor.name for tensor in plan.fetches],
            targets=[operation.name for operation in plan.targets],
        )
        if facts["kind"] != "learning":
            return
        arrays = plan.arrays(feeds, lambda name: session._is_divided(plan, name))
        pairs = [(feed.tensor, array) for feed, array in zip(plan.feeds, arrays)]
        self.add(session, pairs, plan.fetches, plan.targets, facts, plan.sparse_feeds)

    def add(
        self,
        session: Any,
        feeds: list[Any],
        fetches: list[Any],
        targets: list[Any],
        facts: dict[str, Any],
        sparse: list[list[str]],
    ) -> None:
        """Adds a learning run; raises Enough after several known ones."""
        key = (
            id(session.graph),
            tuple(sorted(t.name for t, _ in feeds)),
            tuple(t.name for t in fetches),
            tuple(t.name for t in targets),
        )
        if key in self._keys:
            self._since += 1
            if self._since >= self._enough:
                raise Enough
            return
        self._keys.add(key)
        self._since = 0
        run = _learning_run(session, feeds, fetches, targets, facts, sparse)
        run.corpus, run.name = self.corpus, f"{self.name} {len(self.found)}"
        self.found.append(run)


def _learning_run(
    session: Any,
    feeds: list[Any],
    fetches: list[Any],
    targets: list[Any],
    facts: dict[str, Any],
    sparse: list[list[str]],
) -> LearningRun:
    graph = session.graph
    ends = sorted({t.op.name for t in fetches} | {t.name for t in targets})
    definition = tf1.graph_util.extract_sub_graph(graph.as_graph_def(add_shapes=True), ends)
    variables = graph.get_collection(tf1.GraphKeys.TRAINABLE_VARIABLES)
    values: dict[str, np.ndarray | None] = {}
    ranks, divided, fixed = {}, [], []
    parts = {name for names in sparse for name in names}
    replicated = set(session._options.replicate) if hasattr(session, "_options") else ()
    present = {node.name for node in definition.node}
    for tensor, array in feeds:
        if tensor.op.name not in present:
            continue
        array = np.asarray(array)
        values[tensor.name] = array if array.nbytes <= LARGEST_ARRAY else array[:64].copy()
        shape = tensor.shape.as_list() if tensor.shape.rank is not None else [None] * array.ndim
        if tensor.name in parts or tensor.name in replicated or not shape or array.ndim == 0:
            continue
        (divided if shape[0] is None else fixed).append(tensor.name)
    element = list(facts.get("element") or [])
    rows = None
    for name in element:
        tensor = graph.get_tensor_by_name(name)
        shape = tensor.shape.as_list() if tensor.shape.rank is not None else [None, None]
        some = [size or (3 if d else 12) for d, size in enumerate(shape)]
        values[name] = np.zeros(some, tensor.dtype.as_numpy_dtype)
        if tensor.dtype.is_floating:
            values[name] = np.random.default_rng(0).standard_normal(some)
        ranks[name] = len(shape)
        if shape:
            divided.append(name)
            rows = shape[0] or rows
    if not divided and not sparse:
        sizes = {values[name].shape[0] for name in fixed}  # type: ignore[union-attr]
        if len(sizes) == 1 and sizes != {1}:
            rows = sizes.pop()
            divided = fixed
    return LearningRun(
        name="",
        corpus="",
        graph=definition.SerializeToString(),
        feeds=values,
        divided=divided,
        fetches=[t.name for t in fetches],
        targets=[t.name for t in targets],
        trainable=[v.op.name for v in variables if hasattr(v, "op")],
        sparse=[names for names in sparse if len(names) == 3 and names[0] in values],
        ranks=ranks,
        rows=rows,
    )


# ------------------------------------------------------------------------------- corpora


def programs(names: list[str] | None = None) -> list[LearningRun]:
    """Returns the runs of tests/programs."""
    from tests.programs import _harness, _judgement

    found = []
    for name in names or _judgement.names():
        if _harness.missing_packages(name):
            continue
        recorder = Recorder("programs", name)
        with recorder.open(), context.graph_mode(), contextlib.suppress(Exception):
            _harness.run(name, seed=1, learners=1)
        found += recorder.found
    return found


def networks(names: list[str] | None = None) -> list[LearningRun]:
    """Returns the runs of benchmarks/networks.py, once each."""
    import networks as benchmark

    found = []
    for name in names or _distinct(benchmark.NETWORKS):
        with context.graph_mode():
            graph, train, _, feeds = benchmark.network_program(name)
        found.append(_fed("networks", name, graph, train, [], feeds[0]))
    return found


def _distinct(names: Any) -> list[str]:
    """Drops names of the same network for other numbers of rows."""
    first: dict[str, str] = {}
    for name in names:
        first.setdefault(re.sub(r",? \d+$", "", name), name)
    return list(first.values())


def models(names: list[str] | None = None) -> list[LearningRun]:
    """Returns the runs of tensorbow.models."""
    from tensorbow import models as made
    from tensorbow.cli import model_names

    found = []
    random = np.random.default_rng(0)
    for name in names or list(made.MODELS):
        with context.graph_mode():
            reads = model_names.MODELS[name].reads
            program = made.build(name, (32, 32, 3) if reads == "image" else (9,))
        shape = [d or 12 for d in program.inputs.shape.as_list()]
        integer = program.inputs.dtype.is_integer
        inputs = random.integers(0, 9, shape) if integer else random.random(shape)
        labels = random.integers(0, 9, [d or 12 for d in program.labels.shape.as_list()])
        feeds = {program.inputs: inputs, program.labels: labels}
        found.append(_fed("models", name, program.graph, program.train_op, [program.loss], feeds))
    return found


def _fed(
    corpus: str, name: str, graph: Any, train: Any, fetches: list[Any], feeds: dict[Any, Any]
) -> LearningRun:
    session: Any = types.SimpleNamespace(graph=graph)
    pairs = [(t, np.asarray(a, t.dtype.as_numpy_dtype)) for t, a in feeds.items()]
    run = _learning_run(session, pairs, fetches, [train], {}, [])
    run.corpus, run.name = corpus, name
    return run


def oracle(count: int, seed: int = 0) -> list[LearningRun]:
    """Returns training steps of programs that tests/oracle draws from."""
    import itertools

    from tests.oracle import programs as drawn

    choices = {
        "variables": ("resource", "ref"),
        "inputs": ("dense", "sparse"),
        "optimiser": (*drawn.OPTIMISERS, *drawn.BY_HAND),
        "loss": ("mean", "mean_l2"),
        "flow": ("none", "cond", "cond_v2", "while", "while_v2"),
        "norm": ("none", "fused", "moments"),
        "dropout": (False, True),
    }
    every = list(itertools.product(*choices.values()))
    random = np.random.default_rng(seed)
    found = []
    for k in random.choice(len(every), count, replace=False):
        arguments = dict(zip(choices, every[k]))
        arguments["dtype"] = "float32" if arguments["norm"] == "fused" else "float64"
        with context.graph_mode():
            built = drawn.Built(drawn.Program(**arguments))
            batch = built.batch(1, 12)
            feeds = built.feeds(batch, 0.02)
            train = built.ops["train"].op
        found.append(_fed("oracle", f"drawn {k}", built.graph, train, [built.loss], feeds))
    return found


def grammar(count: int, seed: int = 0) -> list[LearningRun]:
    """Returns training steps of programs of tests/oracle/grammar."""
    from tests.oracle.grammar import words
    from tests.oracle.grammar.program import Built

    random = np.random.default_rng(seed)
    found: list[LearningRun] = []
    while len(found) < count:
        program = words.compose(lambda names: names[random.integers(len(names))])
        if not words.fits(program):
            continue
        with context.graph_mode():
            built = Built(program)
            fed = built.feed_dict(LATE_RUN, 12)
        pairs, sparse = [], []
        for placeholder, value in fed.items():
            if isinstance(placeholder, tf.SparseTensor):
                parts = [placeholder.indices, placeholder.values, placeholder.dense_shape]
                pairs += zip(parts, value)
                sparse.append([part.name for part in parts])
            else:
                pairs.append((placeholder, value))
        session: Any = types.SimpleNamespace(graph=built.graph)
        fetches = list(built.fetched().values())
        run = _learning_run(session, pairs, fetches, [built.train], {}, sparse)
        run.corpus, run.name = "grammar", f"drawn {seed} {len(found)}"
        found.append(run)
    return found


def keras_models(names: list[str] | None = None) -> list[LearningRun]:
    """Returns training steps of small Keras models."""
    import keras

    from tests.python import keras_models as small

    made = {
        "network": lambda: small.classifier(small.independent(2)),
        "network, adam": lambda: small.classifier(small.independent(2), "adam"),
        "small, rmsprop": lambda: small.classifier(
            small.independent(2), "rmsprop", make=small.small
        ),
        "logistic": lambda: small.logistic(small.independent(2)),
        "weighted": lambda: small.logistic(
            small.independent(2), weighted_metrics=["accuracy"], metrics=[]
        ),
        "top 3": lambda: small.logistic(
            small.independent(2),
            metrics=[keras.metrics.SparseTopKCategoricalAccuracy(3)],
        ),
        "clipped": lambda: small.classifier(
            small.independent(2), lambda: keras.optimizers.SGD(0.1, global_clipnorm=1.0)
        ),
        "momentum": lambda: small.classifier(
            small.independent(2), lambda: keras.optimizers.SGD(0.1, momentum=0.9, clipvalue=0.1)
        ),
        "adamw": lambda: small.classifier(
            small.independent(2), lambda: keras.optimizers.AdamW(0.01), make=small.small
        ),
    }
    random = np.random.default_rng(0)
    x = random.random((24, 8, 8, 1)).astype(np.float32)
    y = random.integers(0, 10, 24)
    found = []
    for name in names or list(made):
        recorder = Recorder("keras", name, enough=1)
        with context.eager_mode(), recorder.open():
            made[name]().fit(x, y, batch_size=12, epochs=3, verbose=0)
        found += recorder.found
    return found


# ------------------------------------------------------------------------------- tests


def pytest_runtest_call(item: Any) -> Any:
    """Records the learning runs of the test."""
    recorder = Recorder("tests", re.sub(r"[^\w.=,-]+", "_", item.nodeid)[-150:], enough=4)
    run = item.runtest

    def recording() -> None:
        with recorder.open():
            run()
        for learning in recorder.found:
            learning.name = re.sub(r"\W+", "_", learning.name)
            learning.save(pathlib.Path(os.environ["TENSORBOW_ROW_TYPES"]))

    item.runtest = recording


# --------------------------------------------------------------------------------- all


def corpora() -> dict[str, Callable[[], Iterable[LearningRun]]]:
    """Returns the functions that record all runs at hand, by corpus."""
    return {
        "adversarial": adversarial.runs,
        "keras": keras_models,
        "networks": networks,
        "models": models,
        "oracle": lambda: oracle(200),
        "grammar": lambda: grammar(200),
        "programs": programs,
    }


if __name__ == "__main__":
    for record in corpora().values():
        for number, run in enumerate(record()):
            plain = re.sub(r"\W+", "_", run.name)
            run.name = f"{plain}_{number}"
            run.save(pathlib.Path(sys.argv[1]))
