"""The drawn program: its parts by name, and its graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.oracle.described import Described, described
from tests.oracle.grammar import feeds, layers, losses, optimisers, states
from tests.oracle.grammar.scope import Scope

tf1 = tf.compat.v1


@described
class Program(Described):
    """The words of a program.

    Attributes:
      flow: control flow of TensorFlow 1 or 2.
      guard: whether a step is applied.
      accumulated: gradients of four steps are applied at once.
      averaged: "weights" has moving averages of the weights, "slow" a slow copy of them.
      second: another optimiser on another loss: "beside" the step, "after" it, or
        "in turn" with it; or on the weights that the step has updated, "again".
      when: state is updated "beside" the step, "before" or "after" it.
      fetches: of "loss", "rows", "states", "norm", "loss again".
      interlude: another run between training steps.
      called: steps are calls of callables, instead of runs of a session.
    """

    inputs: str = "columns"
    layers: tuple[str, ...] = ()
    loss: str = "mean"
    term: str = "none"
    states: tuple[str, ...] = ()
    when: str = "beside"
    optimiser: str = "gd"
    rate: str = "constant"
    transform: str = "plain"
    guard: str = "always"
    accumulated: bool = False
    averaged: str = "no"
    second: str = "no"
    fetches: tuple[str, ...] = ("loss",)
    interlude: str = "none"
    variables: str = "resource"
    flow: str = "v2"
    sizes: str = "varied"
    called: bool = False
    seed: int = 0

    @property
    def is_float32(self) -> bool:
        """True if the weights depend on a part that computes in float32."""
        return "fused batch norm" in self.layers or self.loss.startswith("losses")


SECONDS = ("no", "beside", "after", "again", "in turn")
INTERLUDES = ("none", "evaluate", "load", "clip", "reset")


class Built:
    """A program's graph, and the runs that train it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.graph = tf.Graph()
        self._fed: dict[tuple[int, int | None], dict[Any, Any]] = {}
        enabled = tf1.control_flow_v2_enabled()
        (tf1.enable_control_flow_v2 if program.flow == "v2" else tf1.disable_control_flow_v2)()
        try:
            with self.graph.as_default():
                tf1.set_random_seed(7)
                self._build()
        finally:
            (tf1.enable_control_flow_v2 if enabled else tf1.disable_control_flow_v2)()

    def _build(self) -> None:
        program = self.program
        s = self.scope = Scope(program.variables)
        with s.kind_of_variables():
            self._forward()
            updates = self._states()
            self._train(updates)
            self._interludes()
        self.variables = {v.op.name: v for v in self._all_variables()}
        self.init = tf.group(tf1.global_variables_initializer(), tf1.local_variables_initializer())

    def _all_variables(self) -> list[Any]:
        return [*tf1.global_variables(), *tf1.local_variables()]

    def _forward(self) -> None:
        s, program = self.scope, self.program
        h = layers.INPUTS[program.inputs](s)
        for name in program.layers:
            h = layers.LAYERS[name](s, h)
        out = tf.linalg.matvec(h, s.weight("last", feeds.UNITS)) + s.weight("intercept")
        self.batch = losses.Batch(s, h, out)
        loss = losses.loss_of(program.loss, self.batch)
        self.loss = loss + losses.TERMS[program.term](self.batch)
        s.values |= {"loss": self.loss, "rows": out}

    def _states(self) -> list[Any]:
        """Builds the state; returns its updates."""
        made = [states.STATES[name](self.batch, self.loss) for name in self.program.states]
        self.state_values = [value for _, value in made]
        return [update for update, _ in made]

    def _train(self, updates: list[Any]) -> None:
        s, program = self.scope, self.program
        before = s.before + (updates if program.when == "before" else [])
        with tf.control_dependencies(before):
            step = optimisers.update(s, program, self.loss)
        after = s.after + (updates if program.when == "after" else [])
        self.train = tf.group(step, *after, *(updates if program.when == "beside" else []))
        if program.averaged != "no":
            with tf.control_dependencies([self.train]):
                self.train = self._averages()
        seconds = {"no": lambda: None, "again": self._again}
        self.second = seconds.get(program.second, self._second)()

    def _averages(self) -> Any:
        weights = list(self.scope.weights.values())
        if self.program.averaged == "weights":
            return tf1.train.ExponentialMovingAverage(0.95, self.scope.step).apply(weights)
        copies = [
            self.scope.state(f"{w.op.name}/slow", np.zeros(w.shape.as_list())) for w in weights
        ]
        return tf.group(*(tf1.assign(c, 0.9 * c + 0.1 * w) for c, w in zip(copies, weights)))

    def _second(self) -> Any:
        """Builds a critic with weights of its own, which reads the activations of the model."""
        s = self.scope
        critic = s.state("critic", np.zeros(feeds.UNITS), trainable=True)
        optimiser = tf1.train.MomentumOptimizer(0.02, 0.5)
        after = self.program.second == "after"
        with tf.control_dependencies([self.train] if after else []):
            # Reads of the model come after its update, or there are none.
            first = tf.identity(next(iter(s.weights.values()))) if after else self.batch.out
            guess = tf.linalg.matvec(tf.stop_gradient(self.batch.h), critic)
            wanted = self.batch.y + 0.1 * tf.reduce_mean(first)
            loss = tf.reduce_mean(tf.square(guess - tf.stop_gradient(wanted)))
            step = optimiser.minimize(loss, var_list=[critic])
        if self.program.second != "in turn":
            self.train = tf.group(self.train, step)
        return step

    def _again(self) -> Any:
        """Builds a step on the updated weights of the last layer, with sums of all rows."""
        last = self.scope.weights["last"]
        with tf.control_dependencies([self.train]):
            h = tf.stop_gradient(self.batch.h)
            out = tf.linalg.matvec(h, last.read_value())
            centre, variance = tf.nn.moments(out, 0)
            errors = (out - centre) / tf.sqrt(variance + 0.1) - self.batch.y
            loss = tf.reduce_mean(tf.square(errors))
            step = tf1.train.AdamOptimizer(0.01).minimize(loss, var_list=[last])
        self.scope.values["loss again"] = loss
        self.train = tf.group(self.train, step)
        return step

    def _interludes(self) -> None:
        first = next(iter(self.scope.weights.values()))
        self.clip = tf1.assign(first, tf.clip_by_value(first, -0.4, 0.4))
        kept = [v for v in self._all_variables() if v not in tf1.trainable_variables()]
        self.reset = tf1.variables_initializer(kept)
        self.first = first

    # ----------------------------------------------------------------------------- runs

    def fetched(self) -> dict[str, Any]:
        """Returns the values that training steps fetch."""
        found = {}
        for name in self.program.fetches:
            if name == "states":
                found |= {f"states {k}": value for k, value in enumerate(self.state_values)}
            elif name in self.scope.values:
                found[name] = self.scope.values[name]
        return found

    def feed_dict(self, run: int, rows: int | None = None) -> dict[Any, Any]:
        """Returns the feeds of a run, made once for all sessions."""
        if (run, rows) not in self._fed:
            self._fed[run, rows] = self._feed_dict(run, rows)
        return self._fed[run, rows]

    def _feed_dict(self, run: int, rows: int | None) -> dict[Any, Any]:
        program = self.program
        if rows is None:
            rows = feeds.rows_of(program.sizes, program.seed, run)
        values = feeds.arrays(program.seed, run, rows)
        fed = {}
        for name, placeholder in self.scope.placeholders.items():
            if name in feeds.SPARSE:
                parts = feeds.SPARSE[name](program.seed, run, rows)
                fed[placeholder] = tf1.SparseTensorValue(*parts)
            else:
                fed[placeholder] = values[name]
        return fed


class Runs:
    """The runs of a program in one session."""

    def __init__(self, built: Built, session: Any) -> None:
        self._built, self._session = built, session
        self._steps: dict[Any, Any] = {}

    def run(self, run: int) -> dict[str, Any]:
        """Executes a training step and other runs after it; returns the fetches."""
        built = self._built
        in_turn = built.program.second == "in turn" and run % 3 == 2
        found = self._step(built.second if in_turn else built.train, run)
        del found["train"]
        return found | self._interlude(run)

    def _step(self, train: Any, run: int) -> dict[str, Any]:
        built = self._built
        fetches = {"train": train, **built.fetched()}
        sparse = any(isinstance(p, tf.SparseTensor) for p in built.scope.placeholders.values())
        if sparse or not built.program.called:  # the parts of sparse rows are not divided
            return self._session.run(fetches, built.feed_dict(run))
        if train not in self._steps:
            inputs = list(built.scope.placeholders.values())
            self._steps[train] = self._session.make_callable(fetches, inputs)
        return self._steps[train](*built.feed_dict(run).values())

    def _interlude(self, run: int) -> dict[str, Any]:
        built, session = self._built, self._session
        kind = built.program.interlude
        if kind == "none" or run % 41 != 40:
            return {}
        if kind == "evaluate":
            reads = {"evaluated loss": built.loss, "evaluated rows": built.batch.out}
            return session.run(reads, built.feed_dict(run + 1, 5))
        if kind == "load":
            built.first.load(0.5 * session.run(built.first), session)
        else:
            session.run({"clip": built.clip, "reset": built.reset}[kind])
        return {}
