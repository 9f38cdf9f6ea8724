"""Hypothesis's strategies: programs, sessions and histories."""

from __future__ import annotations

from hypothesis import strategies as st

import tensorbow
from tests.oracle import actions, programs, setups
from tests.oracle.history import Case
from tests.oracle.training import Train

OPTIMISERS = [*programs.OPTIMISERS, *programs.BY_HAND]
LOSSES = ["mean", "mean_l2"]
RATES = [0.02, 0.02, 0.02, 0.015, 0.01, 0.004]
MAX_ACTIONS = 30


def fits(optimiser, norm):
    """Returns whether rounding stays small. The gradient of two normalised rows is nearly 0, and
    Adam makes whole steps of its float32 remainder."""
    return (optimiser, norm) != ("adam", "fused")


@st.composite
def _program(draw):
    """Draws any program; fused batch normalisation exists in float32 only."""
    norm = draw(st.sampled_from(["none", "none", "none", "moments", "fused"]))
    return programs.Program(
        variables=draw(st.sampled_from(["resource", "ref"])),
        dtype="float32" if norm == "fused" else draw(_mostly("float64", "float32")),
        inputs=draw(st.sampled_from(["dense", "sparse"])),
        optimiser=draw(st.sampled_from([name for name in OPTIMISERS if fits(name, norm)])),
        loss=draw(st.sampled_from(LOSSES)),
        flow=draw(_mostly("none", "cond", "cond_v2", "while", "while_v2")),
        norm=norm,
        dropout=draw(_mostly(False, True)),
        data=draw(_mostly("fed", "pipeline")),
    )


def _mostly(first, *others):
    return st.sampled_from([first] * (len(others) + 1) + list(others))


@st.composite
def _synchroniser(draw, learners):
    """Draws any synchroniser, with its arguments."""
    kind = draw(st.sampled_from(["SMA", "lagging", "EASGD", "SSGD", "Independent", "auto"]))
    if kind == "auto":
        return "auto"
    if kind == "Independent":
        return tensorbow.Independent()
    decay = draw(_mostly(None, 0.5, 0.9))
    if kind == "SSGD":
        return tensorbow.SSGD(ema_decay=decay)
    strongest = 1.0 if kind == "SMA" else 1.9 / (learners + 1)
    arguments = dict(
        alpha=draw(_mostly(None, strongest, 0.3)),
        sync_period=draw(_mostly(1, 2, 3)),
        ema_decay=decay,
        restart=draw(_mostly("lr_drop", "never")),
    )
    if kind == "EASGD":
        return tensorbow.EASGD(**arguments)
    if kind == "SMA":
        return tensorbow.SMA(**arguments)
    momentum = draw(st.sampled_from([None, 0.0, 0.5]))
    return tensorbow.SMA(centre="lagging", momentum=momentum, **arguments)


@st.composite
def _setup(draw):
    """Draws one to four learners, with shards or with batches of a size."""
    learners = draw(st.sampled_from([2, 2, 3, 4, 1]))
    return setups.Setup(
        learners=learners,
        synchroniser=draw(_synchroniser(learners)),
        batch_size=draw(_mostly(None, 2, 3)),
    )


FETCHES = ["none", "none", "loss", "rows", "variable", "step"]
REFUSALS = ["shape", "dtype", "no_rows", "unknown"]


def numbers_of_rows(setup, everybody):
    """Draws numbers of rows for a run; `everybody`: at least one for every learner."""
    if not everybody:
        return st.sampled_from([8, 1, 2, 3, 5, 6, 7, 9, 12])
    whole = setup.learners * (setup.batch_size or 1)
    if setup.batch_size is None:
        return st.integers(whole, whole + 8)
    return st.sampled_from([whole, 2 * whole])


@st.composite
def action(draw, setup, everybody):
    """Draws any action; half of them train."""
    rows = numbers_of_rows(setup, everybody)
    if draw(st.booleans()):
        return Train(
            rows=draw(rows),
            fetch=draw(st.sampled_from(FETCHES)),
            rate=draw(st.sampled_from(RATES)),
            op=draw(st.sampled_from(["train", "train", "late"])),
        )
    return draw(
        st.one_of(
            st.builds(actions.Evaluate, rows=st.integers(1, 6)),
            st.builds(
                actions.Assign, which=st.integers(0, 20), how=st.sampled_from(["load", "add"])
            ),
            st.builds(actions.Fail, rows=rows, bad_row=st.integers(0, 11)),
            st.just(actions.Initialise()),
            st.just(actions.Refill()),
            st.just(actions.Extend()),
            st.builds(actions.Undivided, rows=st.sampled_from([4, 1, 2, 5])),
            st.just(actions.Restart()),
            st.builds(actions.SetLearners, learners=st.sampled_from([2, 3, 4, 1])),
            st.just(actions.SaveState()),
            st.builds(actions.LoadState, fresh=st.booleans()),
            st.just(actions.SaverSave()),
            st.just(actions.SaverRestore()),
            st.builds(actions.Refuse, what=st.sampled_from(REFUSALS)),
        )
    )


@st.composite
def case(draw):
    """Draws a whole case; in half of the histories every learner always has rows."""
    program, setup = draw(_program()), draw(_setup())
    some = st.lists(action(setup, draw(st.booleans())), max_size=MAX_ACTIONS // 3)
    history = (*draw(some), *draw(some), *draw(some))  # one list would have six actions on average
    return Case(program, setup, history)
