"""Faults of the runtime that are known: what shows them is left out of the cases drawn.

Each has a test in `counter_examples_test.py` that is expected to fail. Who repairs one
deletes it here and the mark there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import tensorbow
from tests.oracle import actions
from tests.oracle.training import Train


@dataclasses.dataclass(frozen=True)
class Fault:
    """What is wrong, which cases show it, and the nearest case that does not."""

    what: str
    shows: Callable
    without: Callable


def _leaving_out(kind):
    def without(case):
        history = tuple(a for a in case.history if not isinstance(a, kind))
        return dataclasses.replace(case, history=history)

    return without


def _fed(case):
    program = dataclasses.replace(case.program, data="fed")
    return dataclasses.replace(case, program=program)


def _has(case, kind):
    return any(isinstance(a, kind) for a in case.history)


def _somebody_sits_out(case):
    if case.program.data == "pipeline":
        return True
    rows = [a.rows for a in case.history if isinstance(a, (Train, actions.Fail))]
    return any(len(i) < case.setup.learners for n in rows for i in case.setup.plan(n))


def _one_learner_trains_on_a_pipeline(case):
    chosen = case.setup.chosen(case.program)
    sparse_or_by_hand = case.program.inputs == "sparse" or case.program.optimiser.startswith("hand")
    ssgd = isinstance(chosen, tensorbow.SSGD)
    return case.program.data == "pipeline" and sparse_or_by_hand and ssgd


def _ssgd_averages(case):
    synchroniser = case.setup.synchroniser
    ssgd = isinstance(synchroniser, tensorbow.SSGD) and case.setup.learners > 1
    return ssgd and synchroniser.ema_decay is not None


def _one_learner_may_train(case):
    by_hand = case.program.optimiser.startswith("hand")
    return by_hand or case.program.inputs == "sparse" or _has(case, actions.Undivided)


WRITES = (actions.Initialise, actions.Assign, actions.SaverRestore)

LOADED = Fault(
    "After load_state slots and statistics are the mean over all learners, also over those "
    "that have had no task since all had the same value",
    shows=lambda case: _has(case, actions.LoadState) and _somebody_sits_out(case),
    without=_leaving_out(actions.LoadState),
)
ROWS_OF_PIPELINE = Fault(
    "samples_seen counts one for the rows of a pipeline's element that one learner trains on",
    shows=_one_learner_trains_on_a_pipeline,
    without=_fed,
)

AVERAGE_BECOMES_THE_MODEL = Fault(
    "Under SSGD with an ema_decay a run that one learner executes starts from the moving "
    "average, which replaces the replicas",
    shows=lambda case: _ssgd_averages(case) and _one_learner_may_train(case),
    without=lambda case: dataclasses.replace(
        case, setup=dataclasses.replace(case.setup, synchroniser=tensorbow.SSGD())
    ),
)
END_OF_PIPELINE = Fault(
    "A learner that finds no data counts as one that had a task, in the mean of slots and "
    "statistics after a write",
    shows=lambda case: case.program.data == "pipeline" and _has(case, WRITES),
    without=_leaving_out(WRITES),
)

FAULTS = [
    ROWS_OF_PIPELINE,
    LOADED,
    AVERAGE_BECOMES_THE_MODEL,
    END_OF_PIPELINE,
]


def avoid(case):
    """The case, or the nearest that shows no known fault."""
    for fault in FAULTS:
        if fault.shows(case):
            case = fault.without(case)
    return case
