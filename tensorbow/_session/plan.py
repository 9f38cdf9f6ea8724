"""Plans of runs: everything about fetches and feed keys that does not depend on values.

TensorFlow resolves names, checks feeds and builds the structure of the result in every
run. Programs run the same fetches with the same feed keys again and again, so a
`RunPlan` keeps all of it that does not depend on the values fed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.client import session as tf_session
from tensorflow.python.framework import composite_tensor, indexed_slices, sparse_tensor
from tensorflow.python.framework import ops as tf_ops
from tensorflow.python.framework import tensor as tf_tensor
from tensorflow.python.ops import session_ops
from tensorflow.python.util import compat, nest, numpy_compat

_SPARSE = (sparse_tensor.SparseTensor, indexed_slices.IndexedSlices)

# Types of fetches that mean the same tensors in every run, the most frequent first.
_LASTING = (
    tf_tensor.Tensor,
    tf_ops.Operation,
    str,
    tf.Variable,
    composite_tensor.CompositeTensor,
)


class NeedsStockRunError(Exception):
    """The feeds hold tensor handles, which only TensorFlow's own run() understands."""


class _Feed:
    """A fed tensor, with its checks of values."""

    def __init__(self, graph: tf.Graph, tensor: tf.Tensor) -> None:
        self.tensor = tensor
        self.output = tensor._as_tf_output()
        self._type = tensor.dtype.as_numpy_dtype
        self.dtype = np.dtype(self._type)
        shape = tensor.get_shape()
        self._dims = None if shape.rank is None else shape.as_list()
        self._known = [k for k, n in enumerate(self._dims or ()) if n is not None]
        self._sizes = [n for n in self._dims or () if n is not None]
        if not graph.is_feedable(tensor):
            raise ValueError(f"Tensor {tensor.name} may not be fed.")

    def array(self, value: Any, is_divided: Callable[[str], bool]) -> np.ndarray:
        """Returns the value as an array of the tensor's dtype.

        Args:
          is_divided: returns true if learners divide the feed of that name in this run. Only
            called for several batches of a fixed number of rows.
        """
        if type(value) is not np.ndarray or (
            value.dtype is not self.dtype and value.dtype != self.dtype
        ):
            value = self._convert(value)
        if not self._takes(value.shape) and not (
            self._takes_batches(value.shape) and is_divided(self.tensor.name)
        ):
            raise ValueError(
                f"Cannot feed value of shape {value.shape} for Tensor {self.tensor.name}, "
                f"which has shape {self.tensor.get_shape()}"
            )
        return value

    def _convert(self, value: Any) -> np.ndarray:
        if isinstance(value, tf_tensor.Tensor):
            raise TypeError(
                "The value of a feed cannot be a tf.Tensor object. Acceptable feed values "
                "include Python scalars, strings, lists, numpy ndarrays, or TensorHandles. "
                f"For reference, the tensor object was {value} which was passed to the "
                f"argument `feed_dict` with key {self.tensor}."
            )
        if isinstance(value, session_ops.TensorHandle):
            raise NeedsStockRunError
        if isinstance(value, int) and tf_session._convert_to_numpy_obj(self._type, value) != value:
            raise TypeError(
                f"Type of feed value {value} with type {type(value)} is not compatible with "
                f"Tensor type {self._type}. Try explicitly setting the type of the feed tensor "
                "to a larger type (e.g. int64)."
            )
        return numpy_compat.np_asarray(value, self._type)

    def _takes(self, shape: tuple[int, ...]) -> bool:
        """Returns true if the tensor's static shape allows a value of this shape."""
        if self._dims is None:
            return True
        if len(self._dims) != len(shape):
            return False
        return [shape[k] for k in self._known] == self._sizes

    def _takes_batches(self, shape: tuple[int, ...]) -> bool:
        """Returns true for several batches of the tensor's fixed number of rows."""
        dims = self._dims
        if not dims or len(dims) != len(shape) or not dims[0]:
            return False
        batches, rest = divmod(shape[0], dims[0])
        return batches > 1 and rest == 0 and self._takes((dims[0], *shape[1:]))


class RunPlan:
    """The part of a run that does not depend on the values fed.

    Args:
      graph: the session's graph.
      fetches: what run() was asked for.
      feeds: the flattened feed dict; of its values only how many tensors they stand for.
    """

    def __init__(self, graph: tf.Graph, fetches: Any, feeds: dict[Any, Any]) -> None:
        # The elements, not the list, which may change: ids in the plan's key stay valid.
        elements = fetches if isinstance(fetches, (list, tuple)) else (fetches,)
        self._held = (*elements, *feeds)
        self.feeds: list[_Feed] = []
        # The parts of each sparse tensor, which are divided together.
        self.sparse_feeds: list[list[str]] = []
        self._composite = False
        for key, value in feeds.items():
            tensors = [tensor for tensor, _ in _expanded(key, value)]
            self.feeds += [_Feed(graph, _graph_tensor(graph, tensor)) for tensor in tensors]
            if isinstance(key, _SPARSE):
                names = [feed.tensor.name for feed in self.feeds[-len(tensors) :]]
                by_rows = isinstance(key, sparse_tensor.SparseTensor)
                self.sparse_feeds += [names] if by_rows else [[name] for name in names]
            self._composite |= len(tensors) != 1 or tensors[0] is not key
        self._fed_refs = [feed.tensor.ref() for feed in self.feeds]
        self._handler = tf_session._FetchHandler(graph, fetches, dict.fromkeys(self._fed_refs))
        self._returns_feeds = len(self._handler._final_fetches) != len(self._handler._fetches)
        self.fetch_outputs = [t._as_tf_output() for t in self._handler.fetches()]
        self.target_ops = [op._c_op for op in self._handler.targets()]
        self.prepared: Any = None
        self._was_prepared = False
        self._has_tasks: bool | None = None

    @property
    def fetches(self) -> list[tf.Tensor]:
        """The tensors fetched, each once."""
        return list(self._handler.fetches())

    @property
    def targets(self) -> list[tf.Operation]:
        """The operations executed."""
        return list(self._handler.targets())

    @property
    def is_reusable(self) -> bool:
        """True if the plan holds for all values of the same feed keys."""
        return not self._composite and not self._returns_feeds

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to fetch or execute."""
        return not self.fetch_outputs and not self.target_ops

    def prepare(self, native: Any) -> None:
        """Sets `prepared`, a `_native.PreparedRun`, if learners execute the run.

        To be called when it has been run; the first time counts.
        """
        if self._was_prepared or not self.is_reusable:
            return
        self._was_prepared = True
        feeds = [feed.tensor for feed in self.feeds]
        self.prepared = prepare_run(native, feeds, self._handler.fetches(), self._handler.targets())

    def has_tasks(self, native: Any) -> bool:
        """Returns true if the run is divided into learning tasks.

        Args:
          native: a `_native.SessionHandle` whose session has the graph of the run.
        """
        if self._has_tasks is None:
            facts = native.describe_run(
                feeds=[feed.tensor.name for feed in self.feeds],
                fetches=[tensor.name for tensor in self._handler.fetches()],
                targets=[operation.name for operation in self._handler.targets()],
            )
            self._has_tasks = facts["kind"] == "learning" and not facts["why_one_learner"]
        return self._has_tasks

    def arrays(
        self, feed_dict: dict[Any, Any], is_divided: Callable[[str], bool]
    ) -> list[np.ndarray]:
        """Returns the values to feed, one array for each of `feeds`.

        Args:
          is_divided: returns true if learners divide the feed of that name in this run.

        Raises:
          TypeError, ValueError: for values that do not fit.
          NeedsStockRunError: for tensor handles.
        """
        values: Iterable[Any] = feed_dict.values()
        if self._composite:
            values = [v for key, given in feed_dict.items() for _, v in _expanded(key, given)]
        return [feed.array(value, is_divided) for feed, value in zip(self.feeds, values)]

    def results(self, session: Any, arrays: list[np.ndarray], values: list[Any]) -> Any:
        """Puts fetched values into the structure that was asked for."""
        if self._returns_feeds:
            self._handler._feeds = dict(zip(self._fed_refs, arrays))
        return self._handler.build_results(session, values)


def prepare_run(
    native: Any, feeds: list[tf.Tensor], fetches: list[tf.Tensor], targets: list[tf.Operation]
) -> Any:
    """Returns a `_native.PreparedRun`; None unless learners execute the run.

    Args:
      native: a `_native.SessionHandle` whose session knows the run.
      feeds, fetches, targets: of the session's graph, in the order of the run.
    """
    return native.prepare(
        feeds=[tensor.name for tensor in feeds],
        feed_types=[tensor.dtype.base_dtype.as_datatype_enum for tensor in feeds],
        fetches=[tensor.name for tensor in fetches],
        fetch_types=[tensor.dtype.base_dtype.as_datatype_enum for tensor in fetches],
        fetch_arrays=[np.dtype(tensor.dtype.base_dtype.as_numpy_dtype) for tensor in fetches],
        targets=[operation.name for operation in targets],
    )


def plan_key(fetches: Any, feed_dict: Any) -> tuple[Any, ...] | None:
    """Returns the key of a plan; None if it cannot be kept (nested structures).

    Names stand for themselves, all else for what has its id: a plan that is kept holds it.
    """
    kind: Any = None
    if feed_dict is None:
        feed_dict = ()
    elif not isinstance(feed_dict, dict):
        return None
    if isinstance(fetches, (list, tuple)) and not hasattr(fetches, "_fields"):
        kind, elements = type(fetches), fetches
    else:
        elements = (fetches,)
    for element in elements:
        if not isinstance(element, _LASTING):
            return None
    names = tuple([e if type(e) is str else id(e) for e in elements])
    return (kind, names, tuple(map(id, feed_dict)))


def flat_feed_dict(feed_dict: Any) -> dict[Any, Any]:
    """Flattens nested keys of a feed dict, as TensorFlow does."""
    if not feed_dict:
        return {}
    if isinstance(feed_dict, dict) and all(isinstance(k, tf_tensor.Tensor) for k in feed_dict):
        return feed_dict
    return dict(nest.flatten_dict_items(feed_dict))


def _expanded(key: Any, value: Any) -> list[tuple[Any, Any]]:
    """Returns the tensors that a feed key stands for, with their values."""
    for tensor_type, _, expand, _ in tf_session._REGISTERED_EXPANSIONS:
        if isinstance(key, tensor_type):
            return list(expand(key, value))
    raise TypeError(f'{key} in argument `feed_dict` has invalid type "{type(key).__name__}"')


def _graph_tensor(graph: tf.Graph, key: Any) -> tf.Tensor:
    try:
        return graph.as_graph_element(key, allow_tensor=True, allow_operation=False)
    except Exception as error:
        raise TypeError(
            f"Cannot interpret feed_dict key as Tensor: {compat.as_text(str(error.args[0]))}"
        ) from error
