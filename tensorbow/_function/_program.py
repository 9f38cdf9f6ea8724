"""A traced step as a run of a session."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import ops as tf_ops
from tensorflow.python.ops import gen_dataset_ops

from tensorbow._function._arguments import array_of
from tensorbow._function._fallback import FallbackError
from tensorbow._function._variables import EagerVariables, is_variable, watch
from tensorbow._runtime.origins import note_traced
from tensorbow._session.graph_defs import without
from tensorbow._session.plan import prepare_run
from tensorbow.explanation import Explanation

_PYTHON_FUNCTIONS = ("PyFunc", "EagerPyFunc", "PyFuncStateless")


@dataclasses.dataclass(frozen=True)
class _Element:
    """An element that the step takes from an iterator: Python takes it before the run."""

    iterator: Any
    node: str
    types: list[tf.DType]
    shapes: list[tf.TensorShape]

    def take(self) -> list[np.ndarray]:
        taken = gen_dataset_ops.iterator_get_next(
            self.iterator, output_types=self.types, output_shapes=self.shapes
        )
        return [array_of(tensor) for tensor in taken]


def _flat_order(parameters: Any) -> list[str]:
    """Returns names of parameters in the order in which a concrete function takes them."""
    by_keyword = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    return [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY] + sorted(by_keyword)


class TracedStep:
    """A concrete function, and what stands for its inputs.

    Args:
      concrete: of the step.
      leaves: what each tensor input of a call is traced for, in the order of `tf.nest`.
      bound: the arguments of the trace by the names of parameters.
    """

    def __init__(self, concrete: Any, leaves: list[Any], bound: dict[str, Any]) -> None:
        self.function = concrete.graph
        self.outputs = concrete.structured_outputs
        inputs = self.function.inputs
        self.inputs = inputs[: len(inputs) - len(self.function.captures)]
        ids = {id(leaf): k for k, leaf in enumerate(leaves)}
        names = _flat_order(concrete.function_type.parameters.values())
        ordered = [leaf for name in names for leaf in tf.nest.flatten(bound.get(name))]
        self.order = [ids[id(leaf)] for leaf in ordered if id(leaf) in ids]
        if len(self.order) != len(self.inputs) or len(ids) != len(leaves):
            raise FallbackError("its arguments cannot be told apart")
        if self.function.deferred_external_captures:
            raise FallbackError("it captures a value anew in each call")

    def called_for_values(self) -> set[str]:
        """Returns the names of Python functions whose values the step needs.

        A session takes the values before a run, so nothing has to wait for the call itself.
        """
        calls = [op for op in self.function.get_operations() if op.type in _PYTHON_FUNCTIONS]
        if not calls:
            return set()
        ahead = [op for op in self.function.control_outputs if op not in calls]
        ahead += [tensor.op for tensor in self.function.outputs]
        needed: set[Any] = set()
        while ahead:
            op = ahead.pop()
            if op not in needed:
                needed.add(op)
                ahead += [tensor.op for tensor in op.inputs]
        return {op.name for op in calls if op in needed}


class _Importer:
    """Brings a traced step into the graph of a session."""

    def __init__(self, step: TracedStep, leaves: list[Any], variables: EagerVariables) -> None:
        self._step = step
        self._variables = variables
        self._definition = step.function.as_graph_def()
        self._known = {id(v.handle): v for v in step.function.variables}
        # Elements of the session's graph, by the names of the function's tensors.
        self._given: dict[str, tf.Tensor] = {}
        self.placeholders: list[tf.Tensor] = []
        self.fed: list[int] = []  # leaves, by placeholder
        self.elements: list[_Element] = []
        for tensor, index in zip(step.inputs, step.order):
            self._add_input(tensor, index, leaves[index])
        for outer, inner in step.function.captures:
            self._add_capture(outer, inner)
        for element in self.elements:
            self._add_element(element)

    def _add_input(self, tensor: tf.Tensor, index: int, leaf: Any) -> None:
        if isinstance(leaf, tf.Variable):
            self._given[tensor.name] = self._variables.add(leaf.handle, leaf)
        elif tensor.dtype == tf.resource:
            self._cut(tensor, leaf._iterator_resource)
        else:
            self._given[tensor.name] = self._placeholder(tensor.dtype, tensor.shape)
            self.fed.append(index)

    def _placeholder(self, dtype: tf.DType, shape: tf.TensorShape) -> tf.Tensor:
        placeholder: tf.Tensor = tf.compat.v1.placeholder(dtype, shape)
        self.placeholders.append(placeholder)
        return placeholder

    def _add_capture(self, outer: Any, inner: tf.Tensor) -> None:
        if inner.dtype == tf.resource:
            if is_variable(outer):
                handle = self._variables.add(outer, self._known.get(id(outer)))
                self._given[inner.name] = handle
            else:
                self._cut(inner, outer)
        elif inner.dtype == tf.variant or not hasattr(outer, "numpy"):
            raise FallbackError("it captures a value that is not a tensor of numbers or strings")
        else:
            self._given[inner.name] = tf.constant(outer.numpy(), outer.dtype)

    def _cut(self, resource: tf.Tensor, outer: Any) -> None:
        """Has Python take the element that the step takes from an iterator."""
        name = resource.op.name
        users = [n for n in self._definition.node if name in [i.split(":")[0] for i in n.input]]
        if not users:
            return
        if [n.op for n in users] != ["IteratorGetNext"]:
            raise FallbackError(
                f"it uses {name!r}, a resource that is neither a variable nor an iterator of "
                "which it takes one element"
            )
        attributes = users[0].attr
        types = [tf.as_dtype(t) for t in attributes["output_types"].list.type]
        shapes = [tf.TensorShape(s) for s in attributes["output_shapes"].list.shape]
        if tf.variant in types:
            raise FallbackError("the elements of its iterator are not tensors")
        self.elements.append(_Element(outer, users[0].name, types, shapes))

    def _add_element(self, element: _Element) -> None:
        for k, (dtype, shape) in enumerate(zip(element.types, element.shapes)):
            any_rows = [None, *shape[1:]] if shape.rank else shape
            self._given[f"{element.node}:{k}"] = self._placeholder(dtype, any_rows)

    def finish(self, graph: tf.Graph) -> tuple[Any, tf.Operation]:
        """Returns the step's outputs and the operation that executes all of it."""
        dropped = {name.split(":")[0] for name in self._given}
        dropped |= {t.op.name for t in self._step.function.inputs}
        called = self._step.called_for_values()
        definition = without(self._definition, dropped, dropped | called)
        taken = {i if ":" in i else f"{i}:0" for node in definition.node for i in node.input}
        scope = graph.unique_name("step", mark_as_used=False)
        given = {name: tensor for name, tensor in self._given.items() if name in taken}
        tf.import_graph_def(definition, input_map=given, name=scope)
        note_traced(graph, scope, self._step.function)

        def imported(value: Any) -> Any:
            if not isinstance(value, tf.Tensor):
                return value
            if value.name in self._given:
                return tf.identity(self._given[value.name])
            return graph.get_tensor_by_name(f"{scope}/{value.name}")

        outputs = tf.nest.map_structure(imported, self._step.outputs, expand_composites=True)
        done = [
            graph.get_operation_by_name(f"{scope}/{operation.name}")
            for operation in self._step.function.control_outputs
            if operation.name not in dropped | called
        ]
        return outputs, tf.group(*done, name=f"{scope}_all")


class Program:
    """A traced step, ready to run.

    Args:
      step: the trace.
      leaves: the tensors, variables and iterators of the call that it was traced for.
      session: a `TensorBowSession`.
      variables: those that the session shares with eager code.

    Raises:
      FallbackError: if the session cannot execute the step.
    """

    def __init__(
        self, step: TracedStep, leaves: list[Any], session: Any, variables: EagerVariables
    ) -> None:
        self._session = session
        self._turn = variables.turn
        graph = session.graph
        with graph.as_default(), tf.device(None):
            importer = _Importer(step, leaves, variables)
            outputs, self.train_op = importer.finish(graph)
        self.placeholders, self._fed = importer.placeholders, importer.fed
        self._elements = importer.elements
        self._weak_variables = watch(step.function.variables)
        self._structure = outputs
        flat = tf.nest.flatten(outputs, expand_composites=True)
        self._is_single = len(flat) == 1 and flat[0] is outputs
        self._flat = flat
        self.fetches: list[tf.Tensor] = [v for v in flat if isinstance(v, tf.Tensor)]
        self._types = [tensor.dtype.as_datatype_enum for tensor in self.fetches]
        session._extend_graph()
        self.facts: dict[str, Any] = session._native.describe_run(
            feeds=[tensor.name for tensor in self.placeholders],
            fetches=[tensor.name for tensor in self.fetches],
            targets=[self.train_op.name],
        )
        self._prepared = prepare_run(
            session._native, self.placeholders, self.fetches, [self.train_op]
        )

    @property
    def trains(self) -> bool:
        """True if the step trains a variable."""
        return bool(self.facts["kind"] == "learning")

    @property
    def has_lost_variables(self) -> bool:
        """True if a variable of the step has been deleted."""
        return any(variable() is None for variable in self._weak_variables)

    @property
    def has_warnings(self) -> bool:
        """True if the session may have warnings of the last run."""
        return self._prepared is None or bool(self._prepared.has_warnings)

    def arrays(self, leaves: list[Any]) -> list[np.ndarray]:
        """Returns what a call feeds; takes elements from iterators."""
        arrays = [array_of(leaves[index]) for index in self._fed]
        for element in self._elements:
            arrays += element.take()
        return arrays

    def run(self, leaves: list[Any]) -> Any:
        """Executes the step; returns what it returns."""
        arrays = self.arrays(leaves)
        values = None
        with self._turn:
            if self._prepared is not None:
                values = self._session._do_call(self._prepared.run, arrays)
            if values is None:  # learners do not execute it
                values = self._run_central(arrays)
        device = context.context().device_name
        tensors = iter([tf_ops.EagerTensor(v, device, t) for v, t in zip(values, self._types)])
        flat = [next(tensors) if isinstance(v, tf.Tensor) else v for v in self._flat]
        if self._is_single:
            return flat[0]
        return tf.nest.pack_sequence_as(self._structure, flat, expand_composites=True)

    def explain(self, leaves: list[Any]) -> Explanation:
        """Explains what the run of a call would do, and why."""
        arrays = [array_of(leaves[index]) for index in self._fed]
        feeds = dict(zip(self.placeholders, arrays))
        explanation: Explanation = self._session.explain([*self.fetches, self.train_op], feeds)
        return explanation

    def _run_central(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        feeds = dict(zip(self.placeholders, arrays))
        values: list[np.ndarray] = self._session.run([*self.fetches, self.train_op], feeds)
        return values[:-1]
