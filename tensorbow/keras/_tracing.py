"""Turns a Keras model's own `train_step` into operations of a session's graph."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tensorbow._graph_defs import without
from tensorbow._origins import note_traced
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
    """All optimisers that a model has: the compiled one and those in its attributes."""
    found: dict[int, Any] = {}
    for value in [getattr(model, "optimizer", None), *vars(model).values()]:
        while isinstance(value, keras.optimizers.Optimizer):
            found.setdefault(id(value), value)
            value = getattr(value, "inner_optimizer", None)
    return list(found.values())


def has_scheduled_rate(optimiser: Any) -> bool:
    """Whether the learning rate is computed from the number of steps."""
    return not isinstance(getattr(optimiser, "_learning_rate", None), keras.Variable)


def _trainable_test(model: Any) -> Callable[[Any], bool]:
    """Which `tf.Variable` objects belong to the model that learners train."""
    trainable = {id(v.value) for v in model.trainable_variables}
    known = {id(v.value) for v in [*model.variables, *model.metrics_variables]}
    for optimiser in optimisers_of(model):
        known |= {id(getattr(v, "value", v)) for v in optimiser.variables}

    def is_trainable(variable: Any) -> bool:
        if id(variable) in known:
            return id(variable) in trainable
        return bool(variable.trainable)  # one that Keras does not know

    return is_trainable


def _update_gradient_descent(
    optimiser: Any, variable: Any, gradient: Any, rate: Any, scalar: Callable[[Any], Any]
) -> None:
    """Keras's SGD: w ← w − g·γ, or v ← v·m − g·γ and w ← w + v (Nesterov: w + (v·m − g·γ))."""
    if optimiser.momentum == 0:
        tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=rate, delta=gradient)
        return
    momentum = optimiser.momentums[optimiser._get_variable_index(variable)]
    tf.raw_ops.ResourceApplyKerasMomentum(
        var=variable.handle,
        accum=momentum.value.handle,
        lr=rate,
        grad=gradient,
        momentum=scalar(optimiser.momentum),
        use_nesterov=optimiser.nesterov,
    )


def _update_adam(
    optimiser: Any, variable: Any, gradient: Any, rate: Any, scalar: Callable[[Any], Any]
) -> None:
    """Keras's Adam, which is TensorFlow's."""
    index = optimiser._get_variable_index(variable)
    step = scalar(optimiser.iterations + 1)
    beta_1, beta_2 = scalar(optimiser.beta_1), scalar(optimiser.beta_2)
    tf.raw_ops.ResourceApplyAdam(
        var=variable.handle,
        m=optimiser._momentums[index].value.handle,
        v=optimiser._velocities[index].value.handle,
        beta1_power=tf.pow(beta_1, step),
        beta2_power=tf.pow(beta_2, step),
        lr=rate,
        beta1=beta_1,
        beta2=beta_2,
        epsilon=scalar(optimiser.epsilon),
        grad=gradient,
    )


# Of optimisers of exactly these types.
_UPDATES = {
    keras.optimizers.SGD: _update_gradient_descent,
    keras.optimizers.Adam: _update_adam,
    keras.optimizers.AdamW: _update_adam,
}
_OPERATION_TYPES = (tf.float16, tf.bfloat16, tf.float32, tf.float64)


def _by_operation(optimiser: Any) -> Callable[..., Any] | None:
    """Returns an `update_step` that is one operation of TensorFlow's, if there is one.

    It can be fused with the averaging, which saves passes over the weights; Keras's own is
    a handful of operations.
    """
    update = _UPDATES.get(type(optimiser))
    if update is None or getattr(optimiser, "amsgrad", False) or "update_step" in vars(optimiser):
        return None
    stock = optimiser.update_step

    @functools.wraps(stock)
    def update_step(gradient: Any, variable: Any, learning_rate: Any) -> None:
        dtype = tf.as_dtype(variable.dtype)
        if isinstance(gradient, tf.IndexedSlices) or dtype not in _OPERATION_TYPES:
            stock(gradient, variable, learning_rate)
            return
        update(
            optimiser,
            variable.value if isinstance(variable, keras.Variable) else variable,
            tf.cast(gradient, dtype),
            tf.cast(learning_rate, dtype),
            lambda value: tf.cast(value, dtype),
        )

    return update_step


@contextlib.contextmanager
def _methods(instance: Any, **methods: Callable[..., Any] | None) -> Iterator[None]:
    """Meanwhile, the instance has these methods (but None) in the place of its own."""
    replaced = {name: method for name, method in methods.items() if method is not None}
    own = {name: vars(instance)[name] for name in replaced if name in vars(instance)}
    for name, method in replaced.items():
        object.__setattr__(instance, name, method)
    try:
        yield
    finally:
        for name in replaced:
            object.__delattr__(instance, name)
        for name, method in own.items():
            object.__setattr__(instance, name, method)


@contextlib.contextmanager
def _fused_updates(model: Any) -> Iterator[None]:
    """Has the model's optimisers update by single operations meanwhile."""
    with contextlib.ExitStack() as stack:
        for optimiser in optimisers_of(model):
            stack.enter_context(_methods(optimiser, update_step=_by_operation(optimiser)))
        yield


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
    """What a traced step takes from outside of it.

    Returns what stands for it in the graph, by the names of the function's tensors, and which of
    the mirror's variables the step may write.
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
    """A placeholder of any number of rows for an input of the step, and what the step takes."""
    any_rows = [None] if tensor.shape.rank else []
    placeholder = tf.compat.v1.placeholder(
        tensor.dtype, [*any_rows, *tensor.shape[1:]], f"batch/{tensor.op.name}"
    )
    # With one learner, the optimiser sees the same static shapes as in stock Keras.
    static = any_rows and tensor.shape[0] is not None
    return placeholder, tf.ensure_shape(placeholder, tensor.shape) if static else placeholder


def _inputs(definition: Any) -> set[str]:
    """The names of what the nodes of a GraphDef take."""
    return {name for node in definition.node for name in node.input}


def trace(
    model: Any,
    spec: Any,
    mirror: Mirror,
    graph: tf.Graph,
    with_rates: bool,
    fuse: bool,
) -> TracedStep:
    """Adds the model's training step to a graph.

    Args:
      model: a compiled Keras model.
      spec: the structure of a batch, with a `tf.TensorSpec` for each array and None where
        there is nothing.
      mirror: gets the variables that the step uses.
      graph: where the operations go.
      with_rates: whether scheduled learning rates are wanted.
      fuse: whether updates may be written as TensorFlow's optimiser ops, whose last bits
        may differ.

    Raises:
      CannotTraceError: if the step cannot become a graph, or not one for a session.
    """
    try:
        with _fused_updates(model) if fuse else contextlib.nullcontext():
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
        # A step need not look at all that a batch has; names that nothing takes are an error.
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
