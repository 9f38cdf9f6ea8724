"""Executes steps in sessions of their own, stock's and TensorBow's, and compares the results."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from tensorbow.comparison import Comparison, Difference
from tensorbow.synchronisers import SSGD

tf1 = tf.compat.v1


def compare(session: Any, fetches: Any, feed_dict: Any, steps: int) -> Comparison:
    """Returns the comparison; see `TensorBowSession.compare_with_stock`."""
    _check(session, fetches, feed_dict, steps)
    graph = session.graph
    flat = tf.nest.flatten(fetches)
    tensors = [each for each in flat if isinstance(each, tf.Tensor)]
    targets = [each for each in flat if not isinstance(each, tf.Tensor)]
    variables = {
        variable.op.name: variable
        for key in (tf1.GraphKeys.GLOBAL_VARIABLES, tf1.GraphKeys.LOCAL_VARIABLES)
        for variable in graph.get_collection(key)
    }

    def results(made: Any, values: dict[str, Any]) -> dict[str, list[Any]]:
        for name, variable in variables.items():
            initializer = variable.initializer
            made.run(initializer, {initializer.inputs[1]: values[name]})
        made.run(graph.get_collection(tf1.GraphKeys.TABLE_INITIALIZERS))
        taken = [made.run([tensors, targets], feed_dict)[0] for _ in range(steps)]
        found = {t.name: [values[k] for values in taken] for k, t in enumerate(tensors)}
        return found | {name: [value] for name, value in made.run(variables).items()}

    begin = session.run(variables)
    options = dataclasses.replace(
        session.options,
        learners_per_device=max(2, session.num_learners),
        threads_per_learner=None,
    )
    with tf1.Session(graph=graph) as stock:
        wanted = results(stock, begin)
    with tf1.Session(graph=graph) as stock:
        strayed = results(stock, _rounded(begin))
    with type(session)(graph=graph, options=options) as learners:
        found = results(learners, begin)
        explanation = learners.explain(fetches, feed_dict)
    differences = {
        name: Difference(_distance(found[name], stocks), _distance(strayed[name], stocks))
        for name, stocks in wanted.items()
    }
    return Comparison(
        learners=explanation.learners,
        steps=steps,
        why=explanation.why,
        fetches={t.name: differences[t.name] for t in tensors},
        variables={name: differences[name] for name in variables},
    )


def _check(session: Any, fetches: Any, feed_dict: Any, steps: int) -> None:
    """Raises ValueError if the steps cannot be compared."""
    who = "compare_with_stock"
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        raise ValueError(f"{who}: steps must be an int of at least 1, got {steps!r}")
    if session.options.other_hosts is not None:
        raise ValueError(f"{who}: the session is one of several hosts; compare on one host")
    if not (session.options.synchroniser == "auto" or isinstance(session.synchroniser, SSGD)):
        raise ValueError(
            f"{who}: averaged models are not stock's; got {session.options.synchroniser!r}, "
            'wanted SSGD() or "auto"'
        )
    explanation = session.explain(fetches, feed_dict)
    if explanation.kind != "learning":
        raise ValueError(
            f"{who}: fetches must train; got a {explanation.kind} run, which is a stock session's "
            "in any case"
        )
    if explanation.element:
        raise ValueError(
            f"{who}: the run takes data from the graph ({explanation.element[0]}), so that "
            "sessions would get different rows; feed it"
        )


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the values, floats with a relative error of a few roundings."""
    random = np.random.default_rng(0)

    def rounded(value: Any) -> Any:
        array = np.asarray(value)
        if array.dtype.kind != "f":
            return value
        error = random.uniform(-4, 4, array.shape) * np.finfo(array.dtype).eps
        return (array * (1 + error)).astype(array.dtype)

    return {name: rounded(value) for name, value in values.items()}


def _distance(ours: list[Any], stocks: list[Any]) -> float:
    """Returns the largest difference of elements, divided by the largest of stock's."""
    largest = scale = 0.0
    for mine, theirs in zip(ours, stocks, strict=True):
        a, b = np.asarray(mine), np.asarray(theirs)
        if a.shape != b.shape:
            return np.inf
        if a.dtype.kind in "OSU":
            if not np.array_equal(a, b):
                return np.inf
            continue
        a, b = a.astype(np.complex128), b.astype(np.complex128)
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return np.inf
        finite = np.isfinite(b)
        largest = max(largest, np.abs(a[finite] - b[finite]).max(initial=0))
        scale = max(scale, np.abs(b[finite]).max(initial=0))
    return float(largest / scale) if scale else float(largest)
