"""Explanations of runs: how a session executes them, and why."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from tensorbow._session.plan import RunPlan, prepare_run


@dataclasses.dataclass(frozen=True)
class Explanation:
    """The way a session executes a run; `print` it.

    Attributes:
      kind: "learning", "write" or "read".
      learners: how many execute it; 1 is the central model on all cores.
      synchroniser: its name; "" if the run is not learning or none has been chosen.
      feeds: by tensor name, the rows of each learning task, or None where every learner
        gets the feed whole.
      element: tensors (names) that the run takes from pipelines, queues and Python functions
        and whose rows are divided when they have been taken.
      division: "exact" if learners compute what one learner does; "by own rows" if each
        estimates some values from its own rows; "" where nothing is divided, or the user
        has said what is.
      why: the reason why one learner executes a learning run; else "".
      types: by tensor name, how the learners' values make that of all rows: "mean over
        rows", "rows on axis 0", "same on all learners", … Those of operations in functions
        are below the name of the call. Fetches that no update needs and that take long
        (histograms), or mix rows, are "computed once, for all rows", after the step.
      exchanges: tensors (names) that learners exchange within a step.
      fetches: by tensor name, its type, "central" (a variable's central value), the rule
        of `Options(combine=...)`, or None.
    """

    kind: str
    learners: int
    synchroniser: str
    feeds: dict[str, list[int] | None]
    element: list[str]
    division: str
    why: str
    types: dict[str, str]
    exchanges: list[str]
    fetches: dict[str, str | None]

    def __str__(self) -> str:
        who = f"{self.learners} learners" if self.learners > 1 else "one learner, on all cores"
        lines = [f"A {self.kind} run, executed by {who}."]
        if self.kind != "learning":
            lines = [f"A {self.kind} run, executed once, on the central model."]
        if self.synchroniser and self.learners > 1:
            lines.append(f"Kept together by {self.synchroniser}.")
        for name, rows in self.feeds.items():
            how = "whole"
            if rows is not None:
                how = " + ".join(map(str, rows)) + (" row" if rows == [1] else " rows")
            lines.append(f"  feed {name}: {how}")
        lines += [f"  element {name}: rows divided when it is taken" for name in self.element]
        if self.division:
            lines.append(f"Division: {self.division}.")
        if self.why:
            lines.append(f"  {self.why}")
        lines += [f"  exchanged: {name}, {self.types[name]}" for name in self.exchanges]
        for name, rule in self.fetches.items():
            if rule == "central":
                lines.append(f"  fetch {name}: the central model's value")
            elif rule is not None and self.learners > 1:
                lines.append(f"  fetch {name}: {rule}")
        return "\n".join(lines)


def _check_fed(plan: RunPlan) -> None:
    """Raises InvalidArgumentError, as a run would, if a placeholder of it is not fed."""
    fed = {feed.tensor.name for feed in plan.feeds}
    ahead = [*(t.op for t in plan.fetches if t.name not in fed), *plan.targets]
    seen = set()
    while ahead:
        op = ahead.pop()
        if op in seen:
            continue
        seen.add(op)
        if op.type == "Placeholder":
            raise tf.errors.InvalidArgumentError(
                None,
                op,
                f"explain: the run takes the placeholder {op.outputs[0].name!r}, which is not fed; "
                "give it a value in feed_dict, as for run()",
            )
        ahead += [t.op for t in op.inputs if t.name not in fed]
        ahead += op.control_inputs


def explain(native: Any, options: Any, plan: RunPlan, arrays: list[np.ndarray]) -> Explanation:
    """Returns the explanation of one run of a session.

    Args:
      native: the session's `_native.SessionHandle`, which knows the graph.
      options: the session's.
      plan: the run.
      arrays: what it is fed, in the order of `plan.feeds`.
    """
    _check_fed(plan)
    feeds = [feed.tensor for feed in plan.feeds]
    facts = native.describe_run(
        feeds=[tensor.name for tensor in feeds],
        fetches=[tensor.name for tensor in plan.fetches],
        targets=[operation.name for operation in plan.targets],
    )
    rows: dict[str, list[int] | None] = {tensor.name: None for tensor in feeds}
    rules: dict[str, str | None] = {tensor.name: None for tensor in plan.fetches}
    prepared = None
    if facts["kind"] == "learning":
        prepared = prepare_run(native, feeds, plan.fetches, plan.targets)
    found = prepared.explain(arrays) if prepared is not None else None
    if found is None:
        found = dict(why_one_learner="", division="", types={}, exchanges=[])
    else:
        rows.update(zip(rows, found["rows"]))
        central = dict.fromkeys(facts["variable_fetches"], "central")
        known = {**found["types"], **central, **options.combine}
        rules = {name: known.get(name) for name in rules}
    return Explanation(
        kind=facts["kind"],
        learners=1 if found["why_one_learner"] else facts["learners"],
        synchroniser=native.synchroniser if facts["kind"] == "learning" else "",
        feeds=rows,
        element=facts["element"],
        division=found["division"],
        why=found["why_one_learner"] or facts["why_one_learner"],
        types=found["types"],
        exchanges=found["exchanges"],
        fetches=rules,
    )
