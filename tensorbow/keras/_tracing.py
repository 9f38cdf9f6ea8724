"""Turns a Keras model's own `train_step` into operations of a session's graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tensorbow._runtime.origins import note_traced
from tensorbow._session.graph_defs import without
from tensorbow.keras._variables import Mirror

_READERS = frozenset(
    [
        "DisableCopyOnRead",
        "ReadVariableOp",
        "ResourceGather",
        "ResourceGatherNd",
        "VarIsInitializedOp",
        "VariableShape",
    ]
)

_MAX_TRACES = 3


class CannotTraceError(Exception):
    """The model's training step does not become a graph; says why."""


@dataclasses.dataclass(frozen=True)
class TracedStep:
    """A training step in a session's graph.

    Attributes:
      inputs: a placeholder for each array of a batch, of any number of rows, and for each
        scalar.
      outputs: what train_step returned; tensors are of the session's graph.
      rates: learning rates that a schedule computes, after the step.
      train_op: runs everything that the step does.
      written: indices, in the mirror, of the variables that it may write.
    """

    inputs: list[tf.Tensor]
    outputs: Any
    rates: list[tf.Tensor]
    train_op: tf.Operation
    written: frozenset[int]


def optimisers_of(model: Any) -> list[Any]:
    """Returns all optimisers of a model: the compiled one and those in its attributes."""
    found: dict[int, Any] = {}
    for value in [getattr(model, "optimizer", None), *vars(model).values()]:
        while isinstance(value, keras.optimizers.Optimizer):
            found.setdefault(id(value), value)
            value = getattr(value, "inner_optimizer", None)
    return list(found.values())


def has_scheduled_rate(optimiser: Any) -> bool:
    """Returns true if the learning rate is computed from the number of steps."""
    return not isinstance(getattr(optimiser, "_learning_rate", None), keras.Variable)


def _trainable_test(model: Any) -> Callable[[Any], bool]:
    """Returns a predicate for `tf.Variable` objects of the model that learners train."""
    trainable = {id(v.value) for v in model.trainable_variables}
    known = {id(v.value) for v in [*model.variables, *model.metrics_variables]}
    for optimiser in optimisers_of(model):
        known |= {id(getattr(v, "value", v)) for v in optimiser.variables}

    def is_trainable(variable: Any) -> bool:
        if id(variable) in known:
            return id(variable) in trainable
        return bool(variable.trainable)  # one that Keras does not know

    return is_trainable


def _function_graph(model: Any, spec: Any, with_rates: bool) -> Any:
    """Traces train_step as stock Keras does; again if it made variables on the way."""
    made = 0

    def count(make: Callable[..., Any], **kwargs: Any) -> Any:
        nonlocal made
        made += 1
        return make(**kwargs)

    def step(data: Any) -> Any:
        nonlocal made
        made = 0  # tf.function itself traces a second time where variables are its own
        logs = model.train_step(data)
        rates = []
        if with_rates:
            optimisers = filter(has_scheduled_rate, optimisers_of(model))
            rates = [tf.convert_to_tensor(o.learning_rate) for o in optimisers]
        return logs, rates

    for _ in range(_MAX_TRACES):
        function = tf.function(step, autograph=False, jit_compile=False)
        with tf.variable_creator_scope(count):
            concrete = function.get_concrete_function(spec)
        if made == 0:
            break
    return concrete.graph


def _captured(
    function: Any, model: Any, mirror: Mirror, graph: tf.Graph
) -> tuple[dict[str, Any], set[int]]:
    """Returns the values that a traced step captures, and the variables that it may write.

    The values are elements of the session's graph, by the names of the function's tensors; the
    variables are indices in the mirror.
    """
    is_trainable = _trainable_test(model)
    slots = [v.value for o in optimisers_of(model) for v in o.variables]  # by their handles
    variables = {id(v.handle): v for v in [*slots, *function.variables]}
    captured = {}
    written = set()
    for outer, inner in function.captures:
        if inner.dtype == tf.resource:
            variable = variables.get(id(outer))
            if variable is None:
                raise CannotTraceError(
                    "train_step uses a resource that is not a variable, such as a lookup table; "
                    "preprocessing with it belongs into the input pipeline"
                )
            captured[inner.name] = mirror.add(variable, is_trainable(variable))
            if any(consumer.type not in _READERS for consumer in inner.consumers()):
                written.add(mirror.index_of(variable))
        elif not hasattr(outer, "numpy"):
            raise CannotTraceError("train_step uses a tensor that has no value outside of it")
        else:
            with graph.as_default():
                captured[inner.name] = tf.constant(outer.numpy())
    return captured, written


def _placeholder(tensor: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns a placeholder of any number of rows for an input of the step, and the step's
    tensor."""
    any_rows = [None] if tensor.shape.rank else []
    placeholder = tf.compat.v1.placeholder(
        tensor.dtype, [*any_rows, *tensor.shape[1:]], f"batch/{tensor.op.name}"
    )
    # One learner: the optimiser sees the same static shapes as in stock Keras.
    static = any_rows and tensor.shape[0] is not None
    return placeholder, tf.ensure_shape(placeholder, tensor.shape) if static else placeholder


def _inputs(definition: Any) -> set[str]:
    """Returns the names of the inputs of a GraphDef's nodes."""
    return {name for node in definition.node for name in node.input}


def trace(
    model: Any,
    spec: Any,
    mirror: Mirror,
    graph: tf.Graph,
    with_rates: bool,
) -> TracedStep:
    """Adds the model's training step to a graph.

    Args:
      model: a compiled Keras model.
      spec: the structure of a batch, with a `tf.TensorSpec` for each array and None where
        there is nothing.
      mirror: gets the variables that the step uses.
      graph: where the operations go.
      with_rates: whether scheduled learning rates are wanted.

    Raises:
      CannotTraceError: if the step cannot become a graph, or not one for a session.
    """
    try:
        function = _function_graph(model, spec, with_rates)
    except Exception as error:
        raise CannotTraceError(
            f"tracing train_step raised {type(error).__name__}: {error}"
        ) from error

    captured, written = _captured(function, model, mirror, graph)
    dropped = {name.split(":")[0] for name in captured}
    specs = function.inputs[: len(function.inputs) - len(function.captures)]
    ranks = [tensor.shape.rank for tensor in specs]
    if None in ranks or not any(ranks):
        raise CannotTraceError(
            f"a batch has arrays of shapes {', '.join(str(tensor.shape) for tensor in specs)}; "
            "wanted arrays with a row for each sample"
        )
    inputs = []
    with graph.as_default():
        for tensor in specs:
            placeholder, captured[tensor.name] = _placeholder(tensor)
            inputs.append(placeholder)
            dropped.add(tensor.op.name)
        stripped = without(function.as_graph_def(), dropped)
        scope = graph.unique_name("train_step", mark_as_used=False)
        # A step may ignore parts of a batch; importing unused names is an error.
        taken = {f"{name}:0" if ":" not in name else name for name in _inputs(stripped)}
        known = {name: tensor for name, tensor in captured.items() if name in taken}
        tf.import_graph_def(stripped, input_map=known, name=scope)
        note_traced(graph, scope, function)

        def imported(value: Any) -> Any:
            if not isinstance(value, tf.Tensor):
                return value
            if value.name in captured:
                return captured[value.name]
            return graph.get_tensor_by_name(f"{scope}/{value.name}")

        logs, rates = tf.nest.map_structure(imported, function.structured_outputs)
        operations = [
            graph.get_operation_by_name(f"{scope}/{op.name}")
            for op in function.control_outputs
            if op.name not in dropped
        ]
        train_op = tf.group(*operations, name=f"{scope}_all")
    return TracedStep(inputs, logs, list(rates), train_op, frozenset(written))
