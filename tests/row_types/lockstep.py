"""Executes a graph node by node for all rows and for each learner's rows, side by side.

The needs of row types are met on the way: learners read the combined value of a tensor that they
exchange, rescaled inputs, moments and counts of all rows, common draws. Loops, conditionals and
functions are executed here, too, so that every tensor in them is seen, in every iteration.
Floating-point numbers are float64 if TensorFlow has a kernel.

Nothing is written to variables: learners and the whole read the same values.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.python.eager import context
from tensorflow.python.eager import execute as eager_execute
from tensorflow.python.framework import function_def_to_graph, op_def_registry, tensor_util

PARTIAL = ("sum", "max", "min", "all", "any")
MOST_ITERATIONS = 60  # of a loop

_FLOATS = (types_pb2.DT_FLOAT, types_pb2.DT_HALF, types_pb2.DT_BFLOAT16)
_WRITES = re.compile(
    r"(Resource)?(Sparse)?Apply|Assign(Add|Sub)?(VariableOp)?$|Assign(Add|Sub)VariableOp$"
    r"|(Resource)?Scatter(Nd)?(Add|Sub|Update|Mul|Div|Min|Max)$"
)
_RANDOM = re.compile(
    r"Random(Uniform|StandardNormal|UniformInt|GammaV2|PoissonV2|Gamma|Poisson)$"
    r"|TruncatedNormal$|ParameterizedTruncatedNormal$|Multinomial$|StatelessMultinomial$"
    r"|StatelessRandom|StatelessTruncatedNormal|.*CandidateSampler$|RandomShuffle$"
)
# Ops that may wait for ever, or whose values are fed.
_OUTER = re.compile(
    r"(FIFO|RandomShuffle|Padding)?Queue|.*Iterator|Stage|Unstage|.*PyFunc|.*Reader|Barrier|Mutex"
)
_KEYS = ("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg", "StatelessRandomGetAlg")


class Marker:
    """A stand-in for a value."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


DEAD = Marker("dead")  # in a branch that is not taken
FAILED = Marker("failed")  # no kernel computes it here


class Handle:
    """A variable, a stack or a TensorArray."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.items: Any = {}
        self.size = 0
        self.gradients: dict[str, Handle] = {}


class ConditionsDifferError(Exception):
    """Learners take another branch than the whole."""


class StoppedError(Exception):
    """The graph cannot be executed to its end."""


class OpenNumberError(Exception):
    """A number of elements that is not known here."""


class Node:
    """A NodeDef, parsed."""

    def __init__(self, definition: Any) -> None:
        self.definition = definition
        self.name: str = definition.name
        self.op: str = definition.op
        self.inputs: list[tuple[str, int]] = []
        self.controls: list[str] = []
        for text in definition.input:
            if text.startswith("^"):
                self.controls.append(text[1:])
                continue
            name, _, index = text.partition(":")
            self.inputs.append((name, int(index or 0)))
        self.frame = ""  # of a loop of TensorFlow 1

    def attr(self, name: str) -> Any:
        return self.definition.attr[name]


class Part:
    """A graph, or the body of a function."""

    def __init__(self, definition: Any) -> None:
        self.nodes = {node.name: Node(node) for node in definition.node}
        self.parents: dict[str, str] = {}  # by frame
        self._find_frames()
        self.merges: dict[str, list[Node]] = {}
        self.conditions: dict[str, Node] = {}
        for node in self.nodes.values():
            if node.op == "LoopCond":
                self.conditions[node.frame] = node
            if self.is_loop_merge(node):
                self.merges.setdefault(node.frame, []).append(node)
        self.arguments: list[str] = []
        self.results: list[tuple[str, int]] = []
        self.effects: list[str] = []

    def is_loop_merge(self, node: Node) -> bool:
        return node.op in ("Merge", "RefMerge") and any(
            name in self.nodes and self.nodes[name].op in ("NextIteration", "RefNextIteration")
            for name, _ in node.inputs
        )

    def _find_frames(self) -> None:
        consumers: dict[str, list[Node]] = {}
        for node in self.nodes.values():
            for name in [*(name for name, _ in node.inputs), *node.controls]:
                consumers.setdefault(name, []).append(node)
        known = {node.name for node in self.nodes.values() if not node.inputs and not node.controls}
        todo = [self.nodes[name] for name in known]
        while todo:
            node = todo.pop()
            frame = node.frame
            if node.op in ("Enter", "RefEnter"):
                frame = node.attr("frame_name").s.decode()
            for consumer in consumers.get(node.name, ()):
                if consumer.name in known:
                    continue
                known.add(consumer.name)
                consumer.frame = frame
                if consumer.op in ("Exit", "RefExit"):
                    consumer.frame = self.parents[frame]
                todo.append(consumer)
                if consumer.op in ("Enter", "RefEnter"):
                    self.parents[consumer.attr("frame_name").s.decode()] = consumer.frame
            if node.op in ("Enter", "RefEnter") and node.name in known:
                self.parents.setdefault(frame, node.frame)

    def frame_of(self, node: Node) -> str:
        """Returns the frame of its value."""
        if node.op in ("Enter", "RefEnter"):
            return str(node.attr("frame_name").s.decode())
        return node.frame


class Scope:
    """The values of a part, or of one iteration of one of its loops."""

    def __init__(
        self, part: Part, prefix: str, frame: str = "", parent: Scope | None = None
    ) -> None:
        self.part, self.prefix, self.frame, self.parent = part, prefix, frame, parent
        self.memo: dict[str, list[Any]] = {}
        self.exits: dict[str, Scope | None] = {}  # by frame: the last iteration

    def of(self, frame: str) -> Scope:
        scope: Scope = self
        while scope.frame != frame:
            assert scope.parent is not None, frame
            scope = scope.parent
        return scope


class Lockstep:
    """One execution of a graph.

    A value is a tuple: of the whole, then of each learner.

    Args:
        graph: a `GraphDef`.
        facts: the result of `type_rows` for it.
        counts: the rows of each learner.
        given: values of fed tensors, by name.
        variables: by name.
        see: called with every tensor's name, value, and whether a loop may compute it again.
    """

    def __init__(
        self,
        graph: Any,
        facts: dict[str, Any],
        counts: tuple[int, ...],
        given: dict[str, tuple[Any, ...]],
        variables: dict[str, Any],
        see: Callable[[str, tuple[Any, ...], bool], None],
    ) -> None:
        self.types = facts["types"]
        self.counts = counts
        self.ratios = [1.0, *(sum(counts) / count for count in counts)]
        self.exchanged = set(facts["exchanges"])
        self.needs: dict[str, list[dict[str, Any]]] = {}
        for need in facts["needs"]:
            self.needs.setdefault(need["node"], []).append(need)
        self.variables, self._see = variables, see
        self.is_rough = False  # a kernel computed in float32
        self._entered: set[str] = set()  # loops being executed
        self._part = Part(graph)
        self._library = {f.signature.name: f for f in graph.library.function}
        # The graph in which calls in bodies find their functions.
        self._functions = tf.Graph()
        with self._functions.as_default():
            only_library = tf.compat.v1.GraphDef(library=graph.library, versions=graph.versions)
            tf.import_graph_def(only_library, name="")
        self._bodies: dict[str, Part] = {}
        self._loops = 0
        self._handles: dict[str, Handle] = {}
        self.faults: list[tuple[str, str]] = []
        self.failures: dict[str, str] = {}  # by op
        self._scope = Scope(self._part, "")
        for tensor, value in given.items():
            name, _, index = tensor.partition(":")
            outputs = self._scope.memo.setdefault(name, [])
            while len(outputs) <= int(index or 0):
                outputs.append(self._all(FAILED))
            outputs[int(index or 0)] = value

    def run(self, ends: list[str]) -> None:
        """Computes all inputs of these nodes, eagerly."""
        for name in ends:
            self._get(self._scope, name)

    # -------------------------------------------------------------------- graph order

    def _all(self, value: Any) -> tuple[Any, ...]:
        return (value,) * (len(self.counts) + 1)

    def _get(self, scope: Scope, name: str) -> list[Any]:
        """Returns the outputs of a node, in the scope of its frame."""
        part = scope.part
        stack = [(scope.of(part.frame_of(part.nodes[name])), name)]
        first = stack[0][0]
        while stack:
            at, current = stack[-1]
            if current in at.memo:
                stack.pop()
                continue
            node = part.nodes[current]
            outer = at
            if node.op in ("Enter", "RefEnter"):
                assert at.parent is not None
                outer = at.parent.of(part.parents[at.frame])
            missing = []
            if node.op not in ("Exit", "RefExit"):
                for source in [*(name for name, _ in node.inputs), *node.controls]:
                    if source not in outer.memo:
                        missing.append((outer, source))
            if missing:
                stack.extend(missing)
                continue
            at.memo[current] = self._compute(at, outer, node)
            stack.pop()
        return first.memo[name]

    def _compute(self, scope: Scope, outer: Scope, node: Node) -> list[Any]:
        path = scope.prefix + node.name
        if node.op in ("Exit", "RefExit"):
            outputs = self._exit(scope, node)
        else:
            values = [
                self._input(outer, node, i, outer.memo[name][index])
                for i, (name, index) in enumerate(node.inputs)
            ]
            dead = [value[0] is DEAD for value in values]
            controls = [
                bool(outer.memo[name]) and outer.memo[name][0][0] is DEAD for name in node.controls
            ]
            if node.op in ("Merge", "RefMerge"):
                live = [i for i, is_dead in enumerate(dead) if not is_dead]
                outputs = [values[live[0]] if live else self._all(DEAD)]
                outputs.append(self._all(np.int32(live[0])) if live else self._all(DEAD))
            elif any(dead) or any(controls):
                outputs = [self._all(DEAD)] * max(1, self._count(node))
            elif node.op in ("Switch", "RefSwitch"):
                outputs = self._switch(node, values)
            else:
                outputs = self._apply(scope, node, path, values)
        again = self._loops > 0 or scope.frame != "" or node.op in ("While", "StatelessWhile")
        for k, value in enumerate(outputs):
            if value[0] is not DEAD:
                self._see(f"{path}:{k}", value, again)
        return outputs

    def _input(self, scope: Scope, node: Node, i: int, value: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns an input in the learners' form, with the required exchanges and rescales."""
        name, index = node.inputs[i]
        value = self._exchange(f"{scope.prefix}{name}:{index}", value)
        if value[0] is DEAD or value[0] is FAILED:
            return value
        path = scope.prefix + node.name
        for need in self.needs.get(path, ()):
            if need["input"] != i or _WRITES.match(node.op):
                continue
            if need["kind"] in ("whole", "gather", "all_rows"):
                value = self._all(value[0])
            if need["kind"] == "own_rows":
                whole = np.asarray(value[0])
                parts = np.cumsum(self.counts[:-1]) * whole.shape[need["axis"]] // sum(self.counts)
                pieces = np.split(whole, parts, need["axis"])
                value = (value[0], *(tf.constant(piece) for piece in pieces))
            if need["kind"] == "rescale":
                value = self.scaled(value, -need["exponent"])
        if any(need["kind"] == "gather" for need in self.needs.get(path, ())):
            # Learners that take the sums of all slots take their indices, too.
            type_ = self.types.get(f"{scope.prefix}{name}:{index}")
            if type_ is not None and type_["kind"] == "slots":
                value = self._all(value[0])
        return value

    def _exchange(self, tensor: str, value: tuple[Any, ...]) -> tuple[Any, ...]:
        type_ = self.types.get(tensor)
        if tensor not in self.exchanged or type_ is None or type_["kind"] not in PARTIAL:
            return value
        if any(isinstance(v, Marker) for v in value):
            return self._all(FAILED) if value[0] is not DEAD else value
        combined = self.combined(type_, value)
        return (value[0], *([combined] * len(self.counts)))

    def combined(self, type_: dict[str, Any], value: tuple[Any, ...]) -> Any:
        """Returns the whole's value of a partial tensor."""
        pieces = [np.asarray(v) for v in self.scaled(value, -type_["exponent"])[1:]]
        how = {
            "sum": functools.partial(functools.reduce, np.add),
            "max": functools.partial(functools.reduce, np.maximum),
            "min": functools.partial(functools.reduce, np.minimum),
            "all": functools.partial(functools.reduce, np.logical_and),
            "any": functools.partial(functools.reduce, np.logical_or),
        }[type_["kind"]]
        return tf.constant(how(pieces))

    def scaled(self, value: tuple[Any, ...], exponent: int) -> tuple[Any, ...]:
        """Returns each learner's value times r^exponent."""
        if exponent == 0:
            return value
        scaled = [value[0]]
        for v, ratio in zip(value[1:], self.ratios[1:]):
            if isinstance(v, (Marker, Handle)):
                scaled.append(v)
                continue
            array = np.asarray(v)
            new = array * ratio**exponent
            if array.dtype.kind in "iu":
                new = np.rint(new)
            scaled.append(tf.constant(new.astype(array.dtype)))
        return tuple(scaled)

    # ------------------------------------------------------------------- control flow

    def agreed(self, value: tuple[Any, ...], path: str) -> Any:
        """Returns the value of a condition, which must be the same for all."""
        if any(v is FAILED for v in value):
            raise StoppedError(f"the condition at {path} is not computed")
        values = [np.asarray(v) for v in value]
        if any(v.size != 1 for v in values):
            raise StoppedError(f"the condition at {path} is no scalar")
        if any(v.reshape(()) != values[0].reshape(()) for v in values):
            raise ConditionsDifferError(path)
        return values[0].reshape(()).item()

    def _switch(self, node: Node, values: list[Any]) -> list[Any]:
        taken = int(bool(self.agreed(values[1], node.name)))
        outputs = [self._all(DEAD)] * 2
        outputs[taken] = values[0]
        return outputs

    def _exit(self, scope: Scope, node: Node) -> list[Any]:
        switch, index = node.inputs[0]
        frame = scope.part.nodes[switch].frame
        if frame not in scope.exits:
            if frame in self._entered:
                raise StoppedError(f"the loop {frame} waits for itself")
            self._entered.add(frame)
            scope.exits[frame] = self._loop(scope, frame)
            self._entered.remove(frame)
        last = scope.exits[frame]
        if last is None:
            return [self._all(DEAD)]
        value = self._get(last, switch)[index]
        return [self._exchange(f"{scope.prefix}{switch}:{index}", value)]

    def _loop(self, outer: Scope, frame: str) -> Scope | None:
        """Executes a loop; returns None in a branch that is not taken."""
        part = outer.part
        merges = part.merges.get(frame, [])
        scope = Scope(part, outer.prefix, frame, outer)
        for merge in merges:
            self._enter_merge(scope, scope, merge, entering=True)
        for _ in range(MOST_ITERATIONS):
            condition = self._condition(scope, part.conditions[frame])
            if condition[0] is DEAD:
                return None
            if not self.agreed(condition, frame):
                return scope
            following = Scope(part, outer.prefix, frame, outer)
            # The inputs of a loop are the same in every iteration.
            for name, value in scope.memo.items():
                if part.nodes[name].op in ("Enter", "RefEnter"):
                    following.memo[name] = value
            for merge in merges:
                self._enter_merge(scope, following, merge, entering=False)
            scope = following
        raise StoppedError(f"the loop {frame} does not end")

    def _condition(self, scope: Scope, node: Node) -> tuple[Any, ...]:
        value: tuple[Any, ...] = self._get(scope, node.name)[0]
        return self._exchange(f"{scope.prefix}{node.name}:0", value)

    def _enter_merge(self, scope: Scope, following: Scope, merge: Node, entering: bool) -> None:
        for i, (name, index) in enumerate(merge.inputs):
            is_next = scope.part.nodes[name].op in ("NextIteration", "RefNextIteration")
            if is_next == entering:
                continue
            value = self._input(scope, merge, i, self._get(scope, name)[index])
            following.memo[merge.name] = [value, self._all(np.int32(i))]
            self._see(f"{scope.prefix}{merge.name}:0", value, True)

    def _body(self, name: str) -> Part:
        if name not in self._bodies:
            definition = self._library[name]
            with self._functions.as_default():
                graph, flat = function_def_to_graph.function_def_to_graph_def(definition)
            body = Part(graph)
            body.arguments = [argument.name for argument in definition.signature.input_arg]
            for output in definition.signature.output_arg:
                tensor = flat[definition.ret[output.name]]
                node, _, index = tensor.partition(":")
                body.results.append((node, int(index or 0)))
            body.effects = [definition.control_ret[k] for k in definition.control_ret]
            self._bodies[name] = body
        return self._bodies[name]

    def _call(self, function: str, prefix: str, values: list[Any]) -> list[Any]:
        body = self._body(function)
        scope = Scope(body, prefix)
        for name, value in zip(body.arguments, values):
            scope.memo[name] = [value]
            if self._loops and value[0] is not DEAD:
                self._see(f"{prefix}{name}:0", value, True)
        for name in body.effects:
            self._get(scope, name)
        results = []
        for name, index in body.results:
            value = self._get(scope, name)[index]
            results.append(self._exchange(f"{prefix}{name}:{index}", value))
        return results

    def _call_op(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        if node.op in ("PartitionedCall", "StatefulPartitionedCall"):
            return self._call(node.attr("f").func.name, f"{path}/", values)
        if node.op in ("While", "StatelessWhile"):
            self._loops += 1
            try:
                for _ in range(MOST_ITERATIONS):
                    test = self._call(node.attr("cond").func.name, f"{path}/cond/", values)[0]
                    if not self.agreed(test, path):
                        return values
                    values = self._call(node.attr("body").func.name, f"{path}/body/", values)
            finally:
                self._loops -= 1
            raise StoppedError(f"the loop {path} does not end")
        which = self.agreed(values[0], path)
        if node.op in ("Case", "StatelessCase"):
            branches = [f.name for f in node.attr("branches").list.func]
            k = int(which) if 0 <= which < len(branches) else len(branches) - 1
        else:
            branches = [node.attr("then_branch").func.name, node.attr("else_branch").func.name]
            k = 0 if which else 1
        return self._call(branches[k], f"{path}/{k}/", values[1:])

    # -------------------------------------------------------------------------- nodes

    def _count(self, node: Node) -> int:
        if node.op in ("Switch", "RefSwitch", "Merge", "RefMerge"):
            return 2
        definition = op_def_registry.get(node.op)
        if definition is None:
            return 1
        return sum(len(_dtypes(arg, node.definition.attr)) for arg in definition.output_arg)

    def _apply(self, scope: Scope, node: Node, path: str, values: list[Any]) -> list[Any]:
        if node.op in _CALLS:
            return self._call_op(node, path, values)
        needs = {need["kind"] for need in self.needs.get(path, ())}
        count = self._count(node)
        special = _SPECIAL.get(node.op)
        if special is not None:
            return special(self, node, path, values)
        if _WRITES.match(node.op):
            return [values[0]] * count
        if node.op == "TensorBowReduceGradient":
            return [self._all(values[0][0])]
        if _OUTER.match(node.op) or any(value[0] is FAILED for value in values):
            return [self._all(FAILED)] * count
        if "BatchNorm" in node.op:
            return self._batch_norm(node, path, values)
        if _RANDOM.match(node.op) and node.op not in _KEYS:
            return self._draw(node, path, values, "draw" in needs)
        outputs = self._kernels(node, values, count)
        if "count" in needs:
            outputs = [self._counted(values[0], output) for output in outputs]
        return outputs

    def _kernels(self, node: Node, values: list[Any], count: int) -> list[Any]:
        """Executes a node once for each different set of inputs."""
        done: dict[tuple[int, ...], list[Any]] = {}
        by_learner = []
        for k in range(len(self.counts) + 1):
            inputs = [value[k] for value in values]
            key = tuple(id(x) for x in inputs)
            if key not in done:
                done[key] = self._kernel(node, inputs, count)
            by_learner.append(done[key])
            if k == 0 and count and by_learner[0][0] is FAILED:
                return [self._all(FAILED)] * count
        return [tuple(outputs[i] for outputs in by_learner) for i in range(count)]

    def _kernel(self, node: Node, inputs: list[Any], count: int) -> list[Any]:
        if any(isinstance(x, (Marker, Handle)) for x in inputs):
            return [FAILED] * count
        try:
            return self._execute(node, inputs, count)
        except (tf.errors.OpError, ValueError, TypeError, LookupError, AttributeError) as error:
            self.failures.setdefault(node.op, f"{node.name}: {str(error)[:200]}")
            return [FAILED] * count

    def _execute(self, node: Node, inputs: list[Any], count: int) -> list[Any]:
        definition = op_def_registry.get(node.op)
        if definition is None:
            raise LookupError(f"{node.op} is not registered")
        single = node.op in _ROUGH or not _takes_double(definition)
        if not single:
            try:
                return self._execute_as(node, definition, inputs, count, double=True)
            except tf.errors.NotFoundError:
                _ROUGH.add(node.op)
        outputs = self._execute_as(node, definition, inputs, count, double=False)
        self.is_rough |= any(o.dtype == tf.float64 for o in outputs)
        return outputs

    def _execute_as(
        self, node: Node, definition: Any, inputs: list[Any], count: int, double: bool
    ) -> list[Any]:
        attrs: list[Any] = []
        for attr in definition.attr:
            value = node.definition.attr.get(attr.name, attr.default_value)
            attrs += [attr.name, _attr(value, attr.type, double)]
        wanted: list[int] = []
        for arg in definition.input_arg:
            wanted += [
                _promoted(t, double and not arg.type) for t in _dtypes(arg, node.definition.attr)
            ]
        cast = []
        for x, dtype in zip(inputs, wanted):
            x = tf.convert_to_tensor(x)
            to = tf.as_dtype(dtype)
            cast.append(tf.cast(x, to) if x.dtype != to and x.dtype.is_floating else x)
        outputs = eager_execute.execute(
            node.op.encode(), count, cast, tuple(attrs), context.context()
        )
        outputs = [] if outputs is None or isinstance(outputs, tf.Operation) else list(outputs)
        return [
            tf.cast(o, tf.float64) if o.dtype in (tf.float32, tf.float16, tf.bfloat16) else o
            for o in outputs
        ]

    # ----------------------------------------------------------------------- by needs

    def _counted(self, of: tuple[Any, ...], mean: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns a mean over chosen rows, by the number of all of them."""
        whole = np.size(of[0]) / max(1, np.size(mean[0]))
        counted = [mean[0]]
        for x, value in zip(of[1:], mean[1:]):
            array = np.asarray(value)
            own = np.size(x) / max(1, array.size)
            counted.append(tf.constant(np.where(own > 0, array, 0) * (own / max(whole, 1))))
        return tuple(counted)

    def _draw(self, node: Node, path: str, values: list[Any], common: bool) -> list[Any]:
        """Draws once; learners receive the draw, or their rows of it."""
        count = self._count(node)
        outputs = self._kernel(node, [value[0] for value in values], count)
        drawn = []
        for k, output in enumerate(outputs):
            type_ = self.types.get(f"{path}:{k}")
            if output is FAILED or type_ is None or type_["kind"] not in ("rows", "same"):
                drawn.append(self._all(FAILED))
                continue
            if type_["kind"] == "same":
                if not common and not node.op.startswith("Stateless"):
                    self.faults.append((f"{path}:{k}", "learners draw numbers of their own"))
                drawn.append(self._all(output))
                continue
            sizes = self._sizes_of_draw(node, values, type_["axis"])
            try:
                pieces = cut(np.asarray(output), type_, sizes)
            except OpenNumberError:
                drawn.append(self._all(FAILED))
                continue
            drawn.append((output, *(tf.constant(piece) for piece in pieces)))
        return drawn

    def _sizes_of_draw(self, node: Node, values: list[Any], axis: int) -> list[int]:
        if "Random" in node.op or "Normal" in node.op:
            return [int(np.asarray(v)[axis]) for v in values[0][1:]]
        return [int(np.shape(v)[axis]) for v in values[0][1:]]

    def _batch_norm(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        """Normalises by the moments of all rows, in float64."""
        if any(isinstance(v, Marker) for value in values for v in value):
            return [self._all(FAILED)] * self._count(node)
        gradient = "Grad" in node.op
        channels_first = node.attr("data_format").s == b"NCHW"
        arrays = [[np.asarray(v, np.float64) for v in value] for value in values]
        sizes = [x.shape[0] for x in arrays[0][1:]]
        if channels_first:
            for k in (0, 1) if gradient else (0,):
                arrays[k] = [np.moveaxis(x, 1, -1) for x in arrays[k]]
        training = node.attr("is_training").b or "is_training" not in node.definition.attr
        if node.definition.attr["exponential_avg_factor"].f not in (0.0, 1.0):
            return [self._all(FAILED)] * self._count(node)
        epsilon = node.attr("epsilon").f or 1e-4
        function = _batch_norm_gradient if gradient else _batch_norm
        x_type = self.types.get(f"{path}:0", {})
        rows = x_type.get("kind") == "rows"
        ratios = np.concatenate([np.full(n, r) for n, r in zip(sizes, self.ratios[1:])])
        by_learner = []
        for k in range(len(arrays[0])):
            mine = [array[k] for array in arrays]
            outputs = function(mine, epsilon, training)
            if k and rows and training and sum(sizes) == arrays[0][0].shape[0]:
                joined = [
                    np.concatenate(a[1:]) if i < (2 if gradient else 1) else a[k]
                    for i, a in enumerate(arrays)
                ]
                exponent = x_type["exponent"] if gradient else 0
                scale = (ratios**exponent).reshape([-1] + [1] * (joined[0].ndim - 1))
                joined[0] = joined[0] / scale
                all_rows = function(joined, epsilon, training)
                start = sum(sizes[: k - 1])
                own = slice(start, start + sizes[k - 1])
                first = all_rows[0][own] * scale[own]
                if gradient:
                    sums = _sums_of_gradient(mine, all_rows[-1])
                    outputs = [first, *sums, *outputs[3:]]
                else:
                    outputs = [first, *all_rows[1:]]
            if channels_first:
                outputs = [np.moveaxis(outputs[0], -1, 1), *outputs[1:]]
            by_learner.append([tf.constant(o) for o in outputs])
        count = self._count(node)
        padded = [
            [*outputs[: 3 if gradient else None], *[tf.zeros([0], tf.float64)] * 6][:count]
            for outputs in by_learner
        ]
        return [tuple(outputs[i] for outputs in padded) for i in range(count)]

    # --------------------------------------------------------------- special nodes

    def _constant(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        array = tensor_util.MakeNdarray(node.attr("value").tensor)
        dtype = node.attr("dtype").type
        if dtype in _FLOATS:
            array = np.asarray(array, np.float64)
        return [self._all(tf.constant(array))]

    def _handle(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        return [self._all(Handle(path))] * max(1, self._count(node))

    def _variable(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        return [self._all(self.variables.get(node.name, FAILED))]

    def _variable_handle(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        return [self._all(Handle(node.name))]

    def _value(self, handle: Any) -> Any:
        return self.variables.get(handle.name, FAILED) if isinstance(handle, Handle) else FAILED

    def _read(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        return [self._all(self._value(value[0])) for value in values]

    def _gather_variable(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        params = self._value(values[0][0])
        if params is FAILED or values[1][0] is FAILED:
            return [self._all(FAILED)]
        if node.op == "ResourceGatherNd":
            return [tuple(FAILED if i is FAILED else tf.gather_nd(params, i) for i in values[1])]
        batch = int(node.attr("batch_dims").i)
        return [
            tuple(
                FAILED if i is FAILED else tf.gather(params, i, batch_dims=batch) for i in values[1]
            )
        ]

    def _variable_shape(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        value = self._value(values[0][0])
        out = tf.as_dtype(node.attr("out_type").type or types_pb2.DT_INT32)
        return [self._all(FAILED if value is FAILED else tf.shape(value, out))]

    def _yes(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        return [self._all(tf.constant(True))]

    def _nothing(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        return []

    def _hand_on(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        return values[: self._count(node)]

    def _push(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        handle = values[0][0]
        handle.items.setdefault("stack", []).append(values[1])
        return [values[1]]

    def _pop(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        stack = values[0][0].items.get("stack") or []
        return [stack.pop() if stack else self._all(FAILED)]

    def _array(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        handle = Handle(path)
        if values[0][0] is not FAILED:
            handle.size = int(np.asarray(values[0][0]))
        return [self._all(handle), self._all(tf.constant(0.0, tf.float64))]

    def _array_gradient(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        forward = values[0][0]
        source = node.attr("source").s.decode()
        if source not in forward.gradients:
            forward.gradients[source] = Handle(path)
            forward.gradients[source].size = forward.size
        return [self._all(forward.gradients[source]), values[1]]

    def _array_write(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        handle, at = values[0][0], int(self.agreed(values[1], path))
        handle.size = max(handle.size, at + 1)
        self._put(handle, at, values[2])
        return [values[3]]

    def _put(self, handle: Handle, at: int, value: tuple[Any, ...]) -> None:
        if at in handle.items:  # gradients add up
            value = tuple(
                FAILED if isinstance(a, Marker) or isinstance(b, Marker) else a + b
                for a, b in zip(handle.items[at], value)
            )
        handle.items[at] = value

    def _array_read(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        at = int(self.agreed(values[1], path))
        return [values[0][0].items.get(at, self._all(FAILED))]

    def _array_size(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        return [self._all(tf.constant(values[0][0].size, tf.int32))]

    def _array_gather(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        handle, places = values[0][0], np.asarray(values[1][0])
        items = [handle.items.get(int(at)) for at in places]
        if not items or any(item is None for item in items):
            return [self._all(FAILED)]
        stacked = []
        for k in range(len(self.counts) + 1):
            pieces = [item[k] for item in items]
            failed = any(isinstance(piece, Marker) for piece in pieces)
            stacked.append(FAILED if failed else tf.stack(pieces))
        return [tuple(stacked)]

    def _array_scatter(self, node: Node, path: str, values: list[Any]) -> list[Any]:
        handle, places = values[0][0], np.asarray(values[1][0])
        if any(isinstance(v, Marker) for v in values[2]):
            return [self._all(FAILED)]
        if any(np.shape(v)[0] != places.size for v in values[2]):
            return [self._all(FAILED)]  # an element for each row: the types say unknown
        handle.size = max(handle.size, places.size)
        for i, at in enumerate(places):
            self._put(handle, int(at), tuple(v[i] for v in values[2]))
        return [values[3]]


_CALLS = {
    "Case",
    "If",
    "PartitionedCall",
    "StatefulPartitionedCall",
    "StatelessCase",
    "StatelessIf",
    "StatelessWhile",
    "While",
}
_SPECIAL: dict[str, Callable[[Lockstep, Node, str, list[Any]], list[Any]]] = {
    "Abort": Lockstep._nothing,
    "Assert": Lockstep._nothing,
    "Const": Lockstep._constant,
    "ControlTrigger": Lockstep._nothing,
    "Enter": Lockstep._hand_on,
    "Identity": Lockstep._hand_on,
    "IdentityN": Lockstep._hand_on,
    "IsVariableInitialized": Lockstep._yes,
    "LoopCond": Lockstep._hand_on,
    "NextIteration": Lockstep._hand_on,
    "NoOp": Lockstep._nothing,
    "PlaceholderWithDefault": Lockstep._hand_on,
    "PreventGradient": Lockstep._hand_on,
    "Print": Lockstep._hand_on,
    "PrintV2": Lockstep._nothing,
    "ReadVariableOp": Lockstep._read,
    "RefEnter": Lockstep._hand_on,
    "RefIdentity": Lockstep._hand_on,
    "RefNextIteration": Lockstep._hand_on,
    "ResourceGather": Lockstep._gather_variable,
    "ResourceGatherNd": Lockstep._gather_variable,
    "StackCloseV2": Lockstep._nothing,
    "StackPopV2": Lockstep._pop,
    "StackPushV2": Lockstep._push,
    "StackV2": Lockstep._handle,
    "StopGradient": Lockstep._hand_on,
    "TensorArrayCloseV3": Lockstep._nothing,
    "TensorArrayGatherV3": Lockstep._array_gather,
    "TensorArrayGradV3": Lockstep._array_gradient,
    "TensorArrayReadV3": Lockstep._array_read,
    "TensorArrayScatterV3": Lockstep._array_scatter,
    "TensorArraySizeV3": Lockstep._array_size,
    "TensorArrayV3": Lockstep._array,
    "TensorArrayWriteV3": Lockstep._array_write,
    "VarHandleOp": Lockstep._variable_handle,
    "VarIsInitializedOp": Lockstep._yes,
    "Variable": Lockstep._variable,
    "VariableShape": Lockstep._variable_shape,
    "VariableV2": Lockstep._variable,
}
# Ops without a kernel for float64; a cast of bits depends on float32.
_ROUGH: set[str] = {"Bitcast"}


def _dtypes(arg: Any, attrs: Any) -> list[int]:
    """Returns the types of an argument's tensors."""
    if arg.type_list_attr:
        return list(attrs[arg.type_list_attr].list.type)
    one = arg.type or attrs[arg.type_attr].type
    return [one] * (int(attrs[arg.number_attr].i) if arg.number_attr else 1)


def _promoted(dtype: int, double: bool) -> int:
    return types_pb2.DT_DOUBLE if double and dtype in _FLOATS else dtype


def _takes_double(definition: Any) -> bool:
    for attr in definition.attr:
        allowed = attr.allowed_values.list.type
        if allowed and types_pb2.DT_FLOAT in allowed and types_pb2.DT_DOUBLE not in allowed:
            return False
    return True


def _attr(value: Any, kind: str, double: bool) -> Any:
    def shape(proto: Any) -> Any:
        return None if proto.unknown_rank else [d.size for d in proto.dim]

    if kind == "type":
        return _promoted(value.type, double)
    if kind == "list(type)":
        return [_promoted(t, double) for t in value.list.type]
    if kind == "shape":
        return shape(value.shape)
    if kind == "list(shape)":
        return [shape(s) for s in value.list.shape]
    simple = {"int": "i", "float": "f", "bool": "b", "string": "s"}
    if kind in simple:
        return getattr(value, simple[kind])
    if kind.startswith("list(") and kind[5:-1] in simple:
        return list(getattr(value.list, simple[kind[5:-1]]))
    raise LookupError(f"an attribute of type {kind}")


def cut(array: np.ndarray, type_: dict[str, Any], sizes: list[int]) -> list[np.ndarray]:
    """Returns learners' pieces of rows that lie on the type's axis."""
    axis, part = type_["axis"], type_["part"]
    if part[0] == "repeated":
        by = constant(part[1])
        shape = array.shape
        split = array.reshape(shape[:axis] + (by, -1) + shape[axis + 1 :])
        inner = {"axis": axis + 1, "part": part[2]}
        pieces = cut(split, inner, [size // by for size in sizes])
        return [p.reshape(shape[:axis] + (-1,) + shape[axis + 1 :]) for p in pieces]
    return np.split(array, np.cumsum(sizes)[:-1], axis)


def constant(terms: Any) -> int:
    """Returns a number without symbols."""
    if terms is None or any(factors for _, factors in terms):
        raise OpenNumberError
    return sum(coefficient for coefficient, _ in terms)


def _batch_norm(inputs: list[np.ndarray], epsilon: float, training: bool) -> list[np.ndarray]:
    x, scale, offset, mean, variance = inputs
    n = x.size // x.shape[-1]
    if training:
        axes = tuple(range(x.ndim - 1))
        mean, variance = x.mean(axes), x.var(axes)
    y = (x - mean) / np.sqrt(variance + epsilon) * scale + offset
    unbiased = variance * n / max(1, n - 1) if training else variance
    return [y, mean, unbiased, mean, variance]


def _batch_norm_gradient(
    inputs: list[np.ndarray], epsilon: float, training: bool
) -> list[np.ndarray]:
    dy, x, scale, mean, variance = inputs[:5]
    axes = tuple(range(x.ndim - 1))
    inverse = 1 / np.sqrt(variance + epsilon)
    normal = (x - mean) * inverse
    dx = dy
    if training:
        dx = dy - dy.mean(axes) - normal * (dy * normal).mean(axes)
    moments = np.stack([mean, inverse])
    return [scale * inverse * dx, (dy * normal).sum(axes), dy.sum(axes), moments]


def _sums_of_gradient(inputs: list[np.ndarray], moments: np.ndarray) -> list[np.ndarray]:
    dy, x = inputs[:2]
    axes = tuple(range(x.ndim - 1))
    return [(dy * (x - moments[0]) * moments[1]).sum(axes), dy.sum(axes)]
