"""Cases that the oracle has found, one test each, as small as possible.

A failing test of `oracle_test.py` prints a case that can be put here as it is.
"""

import pytest

import tensorbow
from tests.oracle.actions import (
    Assign,
    Evaluate,
    Extend,
    Fail,
    Initialise,
    LoadState,
    Refill,
    Restart,
    SaverSave,
    SaveState,
    SetLearners,
    Undivided,
)
from tests.oracle.history import Case
from tests.oracle.programs import Program
from tests.oracle.setups import Setup
from tests.oracle.training import Train

# -------------------------------------------------------------------------- repaired


def test_a_requested_restart_is_made_once_not_once_for_every_kind_of_run():
    Case(
        program=Program(),
        setup=Setup(),
        history=(Train(), Train(fetch="loss"), Restart(), Train(), Train(fetch="loss")),
    ).check()


def test_a_requested_restart_sets_every_replica_whatever_the_next_run_trains():
    Case(
        program=Program(),
        setup=Setup(),
        history=(Extend(), Train(op="late"), Restart(), Train()),
    ).check()


@pytest.mark.parametrize("centre", ["current", "lagging"])
def test_a_learner_that_sat_out_reads_z_where_it_trains_something_else(centre):
    """A GAN with a last batch of one row: the other step must not see old weights."""
    Case(
        program=Program(),
        setup=Setup(synchroniser=tensorbow.SMA(centre=centre)),
        history=(Extend(), Train(), Train(rows=1), Train(op="late")),
    ).check()


def test_a_failing_run_that_fetches_less_is_another_kind_of_run():
    """A fault of the oracle's: rates are remembered for every kind of run by itself."""
    Case(
        program=Program(dropout=True),
        setup=Setup(),
        history=(Fail(rows=8, bad_row=0), Train(fetch="loss"), Train(rate=0.01)),
    ).check()


def test_without_data_what_is_read_is_the_mean_of_the_learners_that_stayed():
    """A fault of the oracle's: a run may write before it finds that there is no data."""
    Case(
        program=Program(data="pipeline"),
        setup=Setup(learners=3, synchroniser="auto"),
        history=(Train(), Train(), Train(), SetLearners(learners=2), Train()),
    ).check()


def test_replicas_that_cancel_leave_a_centre_with_their_rounding():
    """A fault of the oracle's: learners at -4e5 and 4e5, by a power of Adam's that is above
    one, have a centre of -18.2, to 0.01."""
    Case(
        program=Program(dtype="float32", inputs="sparse", optimiser="adam"),
        setup=Setup(synchroniser=tensorbow.SMA(centre="lagging"), batch_size=2),
        history=(Train(rows=5), Evaluate(rows=1), Assign(which=13), Train(rows=5)),
    ).check()


def test_values_that_are_not_finite_may_be_those_before_a_failing_run_or_after_it():
    """A fault of the oracle's: nothing was near them."""
    Case(
        program=Program(optimiser="adam"),
        setup=Setup(),
        history=(Assign(which=17), Train(), SaverSave(), Fail(rows=8, bad_row=0)),
    ).check()


def test_a_mean_of_powers_of_adams_beta_is_rounded():
    Case(
        program=Program(optimiser="adam"),
        setup=Setup(batch_size=2),
        history=(
            *(Train(rows=4), Evaluate(rows=1), Train(rows=4), SetLearners(), Train(rows=4)),
            *(Initialise(), Train(), Undivided(), Train(rows=4)),
        ),
    ).check()


def test_values_beside_one_that_is_not_finite_are_compared_to_rounding():
    """A fault of the oracle's: it had no tolerance left."""
    Case(
        program=Program(inputs="sparse", optimiser="adam"),
        setup=Setup(),
        history=(Assign(which=6), Train(), Train()),
    ).check()


def test_rows_of_a_pipeline_count_where_one_learner_trains_on_them():
    Case(
        program=Program(optimiser="hand", data="pipeline"),
        setup=Setup(synchroniser=tensorbow.SSGD()),
        history=(Train(),),
    ).check()


@pytest.mark.parametrize("synchroniser", [tensorbow.EASGD(), tensorbow.SMA()])
def test_a_requested_restart_comes_before_a_run_that_one_learner_executes(synchroniser):
    Case(
        program=Program(),
        setup=Setup(synchroniser=synchroniser),
        history=(Train(), Restart(), Undivided(), Train()),
    ).check()


def test_learners_that_come_later_train_on_what_is_left_of_a_pipeline():
    Case(
        program=Program(data="pipeline"),
        setup=Setup(learners=1),
        history=(Train(), Train(), SetLearners(learners=4), Train(), Train()),
    ).check()


def test_rows_of_a_pipeline_count_where_one_of_several_learners_trains():
    """A run that one learner compiled moves to the central model with two learners."""
    Case(
        program=Program(optimiser="hand_momentum", data="pipeline"),
        setup=Setup(learners=1, synchroniser=tensorbow.SSGD()),
        history=(Train(), SetLearners(learners=2), Train()),
    ).check()


def test_statistics_of_learners_without_a_task_do_not_count_after_loading_either():
    Case(
        program=Program(norm="moments"),
        setup=Setup(learners=3),
        history=(Train(rows=1), SaveState(), LoadState(fresh=True), Train(rows=1)),
    ).check()


def test_one_learner_trains_the_model_and_not_its_moving_average_under_ssgd():
    Case(
        program=Program(),
        setup=Setup(synchroniser=tensorbow.SSGD(ema_decay=0.5)),
        history=(Train(), Undivided()),
    ).check()


def test_a_learner_that_finds_no_data_does_not_count_in_the_mean_of_statistics():
    """Nine elements, four learners: after the write one of them trains on the last."""
    Case(
        program=Program(data="pipeline"),
        setup=Setup(learners=4),
        history=(Train(), Train(), Initialise(), Train()),
    ).check()


def test_a_pipeline_goes_on_fetching_ahead_when_learners_go():
    """Its threads keep the allocator and the runner of the learner that asked first."""
    for _ in range(5):
        Case(
            program=Program(data="pipeline"),
            setup=Setup(learners=4),
            history=(Train(), SetLearners(learners=2), Train(), Refill(), Train())
            + (SetLearners(learners=1), Train(), SetLearners(learners=3), Train()),
        ).check()


def test_updates_by_hand_are_compiled_again_for_one_learner():
    Case(
        program=Program(optimiser="hand"),
        setup=Setup(synchroniser=tensorbow.SSGD(), batch_size=2),
        history=(Train(), SetLearners(learners=1), Train(rows=3)),
    ).check()


@pytest.mark.parametrize("centre", ["current", "lagging"])
def test_learners_that_come_and_go_between_short_iterations(centre):
    Case(
        program=Program(optimiser="adam", norm="moments"),
        setup=Setup(learners=3, synchroniser=tensorbow.SMA(centre=centre, ema_decay=0.5)),
        history=(
            *(Extend(), Train(rows=1), SetLearners(learners=4), Train(), Train(op="late")),
            *(SetLearners(learners=2), Train(rows=1), Restart(), SetLearners(learners=1)),
            *(Train(), Undivided(), SetLearners(learners=2), Train(op="late"), Train()),
        ),
    ).check()


# --------------------------------------------------------- where the documents were silent


@pytest.mark.parametrize("norm", ["moments", "fused"])
def test_statistics_of_learners_without_a_task_do_not_count(norm):
    """A run of one row leaves the statistics that a stock session has."""
    dtype = "float32" if norm == "fused" else "float64"
    Case(
        program=Program(dtype=dtype, norm=norm),
        setup=Setup(learners=4),
        history=(Train(rows=3), Train(rows=1), Train(rows=2), Train()),
    ).check()


@pytest.mark.parametrize("norm", ["moments", "fused"])
@pytest.mark.parametrize("learners", [2, 4])
def test_learners_that_share_a_batch_normalise_by_all_of_it(norm, learners):
    dtype = "float32" if norm == "fused" else "float64"
    for optimiser in ("gd", "adam"):
        Case(
            program=Program(dtype=dtype, norm=norm, optimiser=optimiser, loss="mean_l2"),
            setup=Setup(learners=learners, synchroniser=tensorbow.SSGD()),
            history=(
                *(Train(fetch="rows"), Train(rows=7, fetch="loss"), Train(rows=1)),
                *(SetLearners(learners=3), Train(rows=2), Undivided(), Train(rows=9)),
            ),
        ).check()


def test_a_failure_leaves_independent_learners_as_their_own_tasks_did():
    Case(
        program=Program(),
        setup=Setup(learners=3, synchroniser=tensorbow.Independent()),
        history=(Train(), Fail(rows=6, bad_row=4), Train()),
    ).check()


def test_independent_learners_that_sit_out_keep_their_own_replicas():
    Case(
        program=Program(optimiser="momentum"),
        setup=Setup(learners=3, synchroniser=tensorbow.Independent()),
        history=(Train(), Train(rows=1), Train(rows=2), Train()),
    ).check()


def test_the_end_of_a_pipeline_with_more_learners_than_elements():
    Case(
        program=Program(optimiser="momentum", data="pipeline"),
        setup=Setup(learners=2),
        history=(Train(),) * 6,
    ).check()


def test_gradients_that_others_are_computed_from_are_averaged_for_updates_only():
    for optimiser in ("hand", "hand_momentum"):
        Case(
            program=Program(optimiser=optimiser, norm="moments"),
            setup=Setup(learners=3, synchroniser=tensorbow.SSGD()),
            history=(Train(), Train(rows=7, fetch="loss"), Train(rows=2)),
        ).check()
