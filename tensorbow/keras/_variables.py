"""Variables that live in Keras and in a session, each brought up to date when needed.

A `Mirror` keeps the variables of one model in both places. The session trains; Keras
reads values (callbacks, evaluation, saving) and now and then writes some (a learning
rate, reset metrics, loaded weights). Values travel only when the other side wants them:
training marks Keras's variables stale, reading one pulls it, writing one marks it dirty,
and the next training run pushes what is dirty.

To notice reads and writes, the class of Keras's underlying `tf.Variable` objects is
replaced by a subclass that looks at the mirrors before it hands out its handle.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.eager import context
from tensorflow.python.ops import gen_resource_variable_ops as variable_ops

from tensorbow._runtime.messages import warn

_MIRRORS = "_tensorbow_mirrors"  # of a tf.Variable: [(mirror, index of the variable)]
_AGGREGATION = "_tensorbow_aggregation"  # cc/graph/op_facts.h
_SCALAR = 16  # elements; small variables are pulled in transfers of their own
_MAX_TRANSFERS = 64

_OVERWRITING = ("assign",)
_UPDATING = (
    "assign_add",
    "assign_sub",
    "batch_scatter_update",
    "scatter_add",
    "scatter_div",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_nd_add",
    "scatter_nd_max",
    "scatter_nd_min",
    "scatter_nd_sub",
    "scatter_nd_update",
    "scatter_sub",
    "scatter_update",
    "_restore_from_tensors",
    "_strided_slice_assign",
)


def aggregation_of(variable: Any) -> str | None:
    """Returns how the learners' values of a variable become one; None for the default.

    By default: the central model for a trained variable, the learners' mean for other
    floating-point state, learner 0's value for the rest.
    """
    if variable.name.split(":")[0].split("/")[-1] == "seed_generator_state":
        return "generator"
    if variable.aggregation == tf.VariableAggregation.SUM:
        return "sum"
    if variable.aggregation == tf.VariableAggregation.ONLY_FIRST_REPLICA:
        return "first"
    return None


class Mirror:
    """The variables that a model's training step uses, in Keras and in a session.

    Args:
      session: a `TensorBowSession` whose graph gets a variable for each of Keras's.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._variables: list[Any] = []
        self._index: dict[int, int] = {}  # by id of the tf.Variable
        self._handles: list[tf.Tensor] = []
        self._placeholders: list[tf.Tensor] = []
        self._reads: list[tf.Tensor] = []
        self._assigns: list[tf.Operation] = []
        self._groups: list[str] = []
        self._transfers: dict[Any, Callable[..., Any]] = {}
        self.shared = False  # some variable is in another mirror, too
        # Indices of variables that are out of date in Keras, and in the session. The sets are
        # replaced, never changed in place: training hands out one set again and again.
        self.stale: frozenset[int] = frozenset()
        self.dirty: frozenset[int] = frozenset()
        # Called with (variable, old value, new value) for scalars that are pushed.
        self.on_push: Callable[[Any, float, float], None] | None = None
        self._last: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._variables)

    def name_of(self, variable: Any) -> str:
        """Returns the name of the variable's node in the session's graph.

        Raises:
          KeyError: if no training step has used the variable.
        """
        return self._handles[self._index[id(variable)]].op.name

    def index_of(self, variable: Any) -> int:
        """Returns the number of a variable that has been added."""
        return self._index[id(variable)]

    def add(self, variable: Any, trainable: bool) -> tf.Tensor:
        """Adds the counterpart of a `tf.Variable` to the session's graph; returns its handle."""
        known = self._index.get(id(variable))
        if known is not None:
            return self._handles[known]
        index = len(self._variables)
        graph = self._session.graph
        with graph.as_default():
            # Paths of Keras variables are not unique. A private layer's begins with "_".
            name = graph.unique_name(variable.name.split(":")[0].lstrip("_") or "variable")
            handle = variable_ops.var_handle_op(
                dtype=variable.dtype, shape=variable.shape, shared_name=name, name=name
            )
            placeholder = tf.compat.v1.placeholder(variable.dtype, variable.shape)
            self._assigns.append(variable_ops.assign_variable_op(handle, placeholder))
            self._reads.append(variable_ops.read_variable_op(handle, variable.dtype))
        if trainable:
            graph.add_to_collection(tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES, handle)
            group = "weights"
        else:
            aggregation = aggregation_of(variable)
            if aggregation is not None:
                attribute = attr_value_pb2.AttrValue(s=aggregation.encode())
                handle.op._set_attr(_AGGREGATION, attribute)
            scalar = variable.shape.num_elements() <= _SCALAR
            group = "metrics" if aggregation == "sum" else "scalars" if scalar else "state"
        self._variables.append(variable)
        self._index[id(variable)] = index
        self._handles.append(handle)
        self._placeholders.append(placeholder)
        self._groups.append(group)
        self.dirty |= {index}
        if _watch(variable, self, index):
            self.shared = True
            if trainable and self._session.num_learners > 1:
                warn(
                    f"tensorbow.keras: variable {variable.name!r} is trained by two replicated "
                    "models. Whenever one goes on from the other's central model, it forgets the "
                    "learners' last updates of its own; train both in one train_step instead"
                )
        return handle

    def mark_stale(self, written: frozenset[int]) -> None:
        """Records that training may have written these variables."""
        if self.stale is written:  # nobody has read them since the last run
            return
        union = self.stale | written
        self.stale = written if len(union) == len(written) else union

    # ----------------------------------------------------------------- session → Keras

    def pull(self, wanted: Iterable[int] | None = None) -> None:
        """Brings Keras's variables up to date: all, or some of them."""
        now = self.stale if wanted is None else self.stale & frozenset(wanted)
        if not now:
            return
        order = sorted(now)
        values = self._transfer("pull", order)()
        self.stale -= now
        with tf.init_scope():
            for index, value in zip(order, values):
                variable = self._variables[index]
                variable_ops.assign_variable_op(
                    variable.__dict__["_handle"], tf.convert_to_tensor(value, variable.dtype)
                )
                if self.shared:
                    _note_written(variable, but=self)

    def refresh(self, index: int) -> None:
        """Pulls a stale variable, and with it the others that are read together."""
        group = self._groups[index]
        self.pull(i for i in self.stale if self._groups[i] == group)

    # ----------------------------------------------------------------- Keras → session

    def push(self) -> None:
        """Brings the session's variables up to date."""
        if self.shared:
            for variable in self._variables:
                _refresh_all(variable, but=self)
        if not self.dirty:
            return
        order = sorted(self.dirty)
        self.dirty = frozenset()
        values = []
        for index in order:
            variable = self._variables[index]
            value = variable_ops.read_variable_op(variable.__dict__["_handle"], variable.dtype)
            values.append(np.asarray(value))
            if self.on_push is not None and value.shape.rank == 0 and variable.dtype.is_floating:
                new = float(values[-1])
                self.on_push(variable, self._last.get(index, new), new)
                self._last[index] = new
        self._transfer("push", order)(*values)

    def mark_dirty(self, index: int) -> None:
        """Makes Keras's value of the variable count from now on."""
        self.stale -= {index}
        self.dirty |= {index}

    def mark_all_dirty(self) -> None:
        """Makes Keras's values count from now on. REQUIRES: nothing is stale."""
        self.dirty = frozenset(range(len(self._variables)))

    def _transfer(self, direction: str, order: list[int]) -> Callable[..., Any]:
        key = (direction, tuple(order))
        if key not in self._transfers:
            if len(self._transfers) >= _MAX_TRANSFERS:
                self._transfers.clear()
            if direction == "pull":
                made = callable_for(self._session, [self._reads[i] for i in order], [], [])
            else:
                made = callable_for(
                    self._session,
                    [],
                    [self._assigns[i] for i in order],
                    [self._placeholders[i] for i in order],
                )
            self._transfers[key] = made
        return self._transfers[key]

    def release(self) -> None:
        """Hands the variables back to Keras, up to date. The mirror is of no use then."""
        self.pull()
        for variable in self._variables:
            _unwatch(variable, self)


def callable_for(
    session: Any, fetches: list[tf.Tensor], targets: list[tf.Operation], feeds: list[tf.Tensor]
) -> Callable[..., Any]:
    """Returns a function of fed arrays that returns the fetched ones; cheaper than run()."""
    from tensorflow.core.protobuf import config_pb2

    options = config_pb2.CallableOptions(
        feed=[t.name for t in feeds],
        fetch=[t.name for t in fetches],
        target=[op.name for op in targets],
    )
    return session._make_callable_from_options(options)


# ------------------------------------------------------------- watching tf.Variable


def _watch(variable: Any, mirror: Mirror, index: int) -> bool:
    """Makes the variable report reads and writes to the mirror; returns true if others watch it."""
    mirrors = variable.__dict__.get(_MIRRORS)
    if mirrors is None:
        variable.__dict__[_MIRRORS] = [(mirror, index)]
        cls: Any = type(variable)
        variable.__class__ = _watched(cls)
        return False
    for other, _ in mirrors:
        other.shared = True
    mirrors.append((mirror, index))
    return True


def _unwatch(variable: Any, mirror: Mirror) -> None:
    mirrors = [(m, i) for m, i in variable.__dict__[_MIRRORS] if m is not mirror]
    variable.__dict__[_MIRRORS] = mirrors
    if not mirrors:
        del variable.__dict__[_MIRRORS]
        variable.__class__ = type(variable).__mro__[1]


def _refresh_all(variable: Any, but: Mirror | None = None) -> None:
    for mirror, index in variable.__dict__[_MIRRORS]:
        if index in mirror.stale and mirror is not but:
            mirror.refresh(index)


def _note_written(variable: Any, but: Mirror | None = None) -> None:
    for mirror, index in variable.__dict__[_MIRRORS]:
        if mirror is not but:
            mirror.mark_dirty(index)


def _writer(method: Callable[..., Any], reads: bool) -> Callable[..., Any]:
    @functools.wraps(method)
    def write(self: Any, *args: Any, **kwargs: Any) -> Any:
        if context.executing_eagerly():
            if reads:
                _refresh_all(self)
            _note_written(self)
        return method(self, *args, **kwargs)

    return write


@functools.cache
def _watched(cls: Any) -> Any:
    """Returns a subclass of a `tf.Variable` class that asks its mirrors."""

    def handle(self: Any) -> Any:
        for mirror, index in self.__dict__[_MIRRORS]:
            if index in mirror.stale:
                mirror.refresh(index)
        return self.__dict__["_handle"]

    def set_handle(self: Any, value: Any) -> None:
        self.__dict__["_handle"] = value

    members: dict[str, Any] = {
        "_handle": property(handle, set_handle),
        "__module__": cls.__module__,
    }
    for names, reads in ((_OVERWRITING, False), (_UPDATING, True)):
        for name in names:
            if hasattr(cls, name):
                members[name] = _writer(getattr(cls, name), reads)
    return type(cls)(cls.__name__, (cls,), members)
