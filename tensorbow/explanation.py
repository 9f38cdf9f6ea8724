"""What a session does with a run, and why, for people and for programs."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from tensorbow._run_plan import RunPlan, prepare_run

_RULES = {
    "mean": "the mean of the learners' values, weighted by rows",
    "sum": "the sum of the learners' values",
    "concat": "the learners' rows, one after the other",
    "first": "learner 0's value",
    "stack": "the learners' values, stacked",
    "same": "computed from averaged gradients, by every learner",
}
_BY_SHAPE = "by type and shape: rows are put together, floats averaged, else learner 0's value"


@dataclasses.dataclass(frozen=True)
class Explanation:
    """How a session executes a run; `print` it.

    Attributes:
      kind: "learning", "write" or "read".
      learners: how many execute it; 1 is the central model on all cores.
      synchroniser: the name of what keeps the learners together; "" if nothing does.
      feeds: by tensor name, the rows of each learning task, or None where every learner
        gets the feed whole.
      element: tensors (names) that the run takes from pipelines, queues and Python functions
        and whose rows are divided; how, and by which proof, is found out when they have been taken.
      verdict: of the proof that the run may be divided: "sound", "nearly sound", "by batch
        moments", "not sound" or "unproven"; "" where nothing is divided, or the options
        leave nothing to prove.
      why: the numbers of the proof, or why there is none, or why one learner executes a
        learning run.
      scaled: gradients (tensor names) that are scaled by the number of learners, because
        the loss sums over rows.
      fetches: by tensor name, "mean", "sum", "concat", "first", "stack", "same" (every learner
        computes it from averaged gradients), "central" (a variable's central value), or None:
        by type and shape.
    """

    kind: str
    learners: int
    synchroniser: str
    feeds: dict[str, list[int] | None]
    element: list[str]
    verdict: str
    why: str
    scaled: list[str]
    fetches: dict[str, str | None]

    def __str__(self) -> str:
        who = f"{self.learners} learners" if self.learners > 1 else "one learner, on all cores"
        lines = [f"A {self.kind} run, executed by {who if self.kind == 'learning' else 'z'}."]
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
        if self.verdict:
            lines.append(f"Division: {self.verdict}.")
        if self.why:
            lines.append(f"  {self.why}")
        for name in self.scaled:
            lines.append(f"  gradient {name}: scaled by the number of learners (a sum over rows)")
        for name, rule in self.fetches.items():
            if rule == "central":
                lines.append(f"  fetch {name}: the central model's value")
            elif self.learners > 1:
                lines.append(f"  fetch {name}: {_RULES[rule] if rule else _BY_SHAPE}")
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
    """The explanation of one run of a session.

    Args:
      native: the session's `_native.SessionHandle`, which knows the graph.
      options: the session's.
      plan: the run.
      arrays: what it is fed, in the order of `plan.feeds`.
    """
    feeds = [feed.tensor for feed in plan.feeds]
    _check_fed(plan)
    facts = native.describe_run(
        feeds=[tensor.name for tensor in feeds],
        fetches=[tensor.name for tensor in plan.fetches],
        targets=[operation.name for operation in plan.targets],
    )
    learners = facts["learners"] if facts["kind"] == "learning" else 1
    why, verdict = facts["why_one_learner"], ""
    scaled: list[str] = []
    rows: dict[str, list[int] | None] = {tensor.name: None for tensor in feeds}
    rules: dict[str, str | None] = {tensor.name: None for tensor in plan.fetches}
    prepared = None
    if facts["kind"] == "learning":
        prepared = prepare_run(native, feeds, plan.fetches, plan.targets)
    found = prepared.explain(arrays) if prepared is not None else None
    if found is not None:
        verdict = found.get("verdict", "")
        why = found.get("why", "") or why
        refused = verdict == "not sound" or (verdict == "unproven" and found["doubt"])
        if found["ambiguous"] or refused:
            learners = 1
            why = why or found["ambiguous"]
            if verdict == "unproven":
                why = f"{found['doubt']}; no proof: {why}"
        else:
            for tensor, divided in zip(feeds, found["divided"]):
                if divided and found["task_rows"]:
                    rows[tensor.name] = found["task_rows"]
            scaled = found.get("sums", []) if options.batch_size is None else []
            for tensor, rule in zip(plan.fetches, found.get("fetches", [])):
                rules[tensor.name] = rule
        for name in facts["variable_fetches"]:
            rules[name] = "central"
        for tensor in plan.fetches:
            rules[tensor.name] = options.combine.get(tensor.name, rules[tensor.name])
    return Explanation(
        kind=facts["kind"],
        learners=learners,
        synchroniser=native.synchroniser if facts["kind"] == "learning" else "",
        feeds=rows,
        element=facts["element"],
        verdict=verdict,
        why=why,
        scaled=scaled,
        fetches=rules,
    )
