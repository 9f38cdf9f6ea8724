"""What Hypothesis draws of the grammar: programs of words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.oracle.grammar import feeds, layers, losses, optimisers, program, states

# They need rows of other learners, so that one learner executes the whole program.
MIXING_LAYERS = ("softmax over rows", "map over rows")
DIVIDED_LAYERS = [name for name in layers.LAYERS if name not in MIXING_LAYERS]
DIVIDED_LOSSES = [name for name in losses.LOSSES if name not in losses.MIXING]

# What is known to differ: programs by what they wait for. Empty when all is well.
KNOWN: dict[str, Callable[[program.Program], bool]] = {
    "a table that is looked up by rows and by all rows together": lambda drawn: (
        drawn.loss in ("sampled negatives", "drawn negatives")
    ),
    "stateless noise with a number for each row": lambda drawn: "stateless dropout" in drawn.layers,
    "sparse or unknown gradients that are applied in a conditional": lambda drawn: (
        drawn.guard != "always" and (_is_sparse(drawn) or _is_mixing(drawn))
    ),
}


def _is_sparse(drawn: program.Program) -> bool:
    """Whether some gradients are rows of a table."""
    looked_up = drawn.inputs.endswith("tokens") or drawn.inputs == "bag lookup"
    return looked_up or "experts" in drawn.layers


def _is_mixing(drawn: program.Program) -> bool:
    """Whether one learner executes the program, as its rows mix."""
    return drawn.loss in losses.MIXING or bool(set(drawn.layers) & set(MIXING_LAYERS))


def _some(*names: Any) -> Any:
    return st.sampled_from(list(names))


def _half(first: Any, others: Any) -> Any:
    """The first one half of the time."""
    rest = [name for name in others if name != first]
    return st.one_of(st.just(first), st.sampled_from(rest))


def _rarely(names: Any, others: Any) -> Any:
    """One of `others` in eight."""
    return st.integers(0, 7).flatmap(lambda k: st.sampled_from(list(others if k == 7 else names)))


def _lists(strategy: Any, most: int) -> Any:
    return st.lists(strategy, max_size=most, unique=True).map(tuple)


def fits(drawn: program.Program) -> bool:
    """Whether a stock session computes the same every time.

    A penalty on reference variables is read before or after their update.
    """
    return drawn.variables == "resource" or not drawn.term.startswith("penalty")


def is_known(drawn: program.Program) -> bool:
    """Whether the program is known to differ."""
    return any(differs(drawn) for differs in KNOWN.values())


@st.composite
def programs(draw: Any) -> program.Program:
    """Any program of the grammar; half of its parts are the plain ones."""
    variables = draw(_some("resource", "ref"))
    kept = draw(_lists(st.sampled_from(list(states.STATES)), 3))
    return program.Program(
        inputs=draw(_half("columns", layers.INPUTS)),
        layers=draw(_lists(_rarely(DIVIDED_LAYERS, MIXING_LAYERS), 2)),
        loss=draw(_rarely(DIVIDED_LOSSES, losses.MIXING)),
        term=draw(_half("none", losses.TERMS)),
        states=kept,
        when=draw(_some("beside", "before", "after")) if kept else "beside",
        optimiser=draw(_some(*optimisers.OPTIMISERS, *optimisers.BY_HAND)),
        rate=draw(_half("constant", optimisers.RATES)),
        transform=draw(_half("plain", optimisers.TRANSFORMS)),
        guard=draw(_half("always", optimisers.GUARDS)),
        accumulated=draw(_rarely([False], [True])),
        averaged=draw(_rarely(["no"], ["weights", "slow"])),
        second=draw(_rarely(["no"], program.SECONDS[1:])),
        fetches=draw(_lists(_some("loss", "states", "rows", "norm"), 3)),
        interlude=draw(_half("none", program.INTERLUDES)),
        variables=variables,
        flow="v1" if variables == "ref" else draw(_some("v2", "v1")),
        sizes=draw(_some(*feeds.SIZES)),
        seed=draw(st.integers(0, 99)),
    )
