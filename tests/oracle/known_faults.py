"""Faults of the runtime that are known: cases that touch them are not drawn.

Each has a test in `counter_examples_test.py` that is expected to fail. Who repairs one
deletes it here and the mark there.
"""

from __future__ import annotations

import tensorbow
from tests.oracle import actions
from tests.oracle.training import Train


def restart_by_request_is_per_kind_of_run(case):
    """`session.restart()` restarts what the next run trains, and again in the first run
    of every other kind."""
    kinds = {(action.op, action.fetch) for action in case.history if isinstance(action, Train)}
    asks = any(isinstance(action, actions.Restart) for action in case.history)
    return asks and len(kinds) > 1


def rows_of_a_pipeline_that_one_learner_trains_on_are_not_counted(case):
    """`samples_seen` counts one for a task whose element has three rows."""
    trains_as_stock = case.program.inputs == "sparse" or case.program.optimiser.startswith("hand")
    return (
        case.program.data == "pipeline"
        and trains_as_stock
        and isinstance(case.setup.synchroniser, tensorbow.SSGD)
    )


def learner_that_sat_out_reads_old_values_of_what_a_run_does_not_train(case):
    """ "It starts its next task from z" holds for the variables that the task trains. What
    another run has trained without this learner, and this run only reads, is old."""
    late = any(isinstance(a, Train) and a.op == "late" for a in case.history)
    averages = not isinstance(case.setup.synchroniser, (tensorbow.SSGD, tensorbow.Independent))
    return averages and late and _somebody_sits_out(case)


def loading_forgets_which_learners_had_a_task(case):
    """After `load_state` slots and statistics are the mean over all learners, also over
    those that have had no task since all had the same value."""
    loads = any(isinstance(a, actions.LoadState) for a in case.history)
    return loads and _somebody_sits_out(case)


def _somebody_sits_out(case):
    return case.program.data == "pipeline" or any(
        len(iteration) < case.setup.learners
        for a in case.history
        if isinstance(a, (Train, actions.Fail))
        for iteration in case.setup.plan(a.rows)
    )


FAULTS = [
    loading_forgets_which_learners_had_a_task,
    learner_that_sat_out_reads_old_values_of_what_a_run_does_not_train,
    restart_by_request_is_per_kind_of_run,
    rows_of_a_pipeline_that_one_learner_trains_on_are_not_counted,
]


def touches(case):
    """Whether a case would show a fault that is known."""
    return any(fault(case) for fault in FAULTS)
