"""Programs as Hypothesis draws them: words of the grammar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.oracle.grammar import feeds, layers, losses, optimisers, program, states

# One learner executes the whole program: these need rows of others, or have no types.
MIXING_LAYERS = ("softmax over rows", "map over rows")
MIXING_INPUTS = ("time major", "scan")
DIVIDED_INPUTS = [name for name in layers.INPUTS if name not in MIXING_INPUTS]
DIVIDED_LAYERS = [name for name in layers.LAYERS if name not in MIXING_LAYERS]
DIVIDED_LOSSES = [name for name in losses.LOSSES if name not in losses.MIXING]
# Programs that are known to differ from stock. Empty when all is well.
KNOWN: dict[str, Callable[[program.Program], bool]] = {}


class Choices:
    """Draws words with a function that chooses from a list."""

    def __init__(self, choose: Callable[[list[Any]], Any]) -> None:
        self.of = choose

    def half(self, first: Any, others: Any) -> Any:
        """Returns the first word half of the time."""
        return self.of([first, self.of([name for name in others if name != first])])

    def rarely(self, names: Any, others: Any) -> Any:
        """Returns one of `others` once in eight times."""
        return self.of(list(others if self.of(list(range(8))) == 7 else names))

    def several(self, choose: Callable[[], Any], most: int) -> tuple[Any, ...]:
        """Returns several different ones, or fewer."""
        number = self.of(list(range(most + 1)))
        return tuple(dict.fromkeys(choose() for _ in range(number)))


def fits(drawn: program.Program) -> bool:
    """Returns whether a stock session computes the same every time.

    A penalty on reference variables is read before or after their update, and so are the weights
    in gradients of a function.
    """
    races = drawn.term.startswith("penalty") or "in function" in drawn.layers
    races = races or drawn.loss in ("teacher", "learned weights", "after an inner step")
    return drawn.variables == "resource" or not races


def is_known(drawn: program.Program) -> bool:
    """Returns whether the program is known to differ."""
    return any(differs(drawn) for differs in KNOWN.values())


def compose(choose: Callable[[list[Any]], Any]) -> program.Program:
    """Draws any program of the grammar; half of its parts are the plain ones."""
    one = Choices(choose)
    variables = one.of(["resource", "ref"])
    kept = one.several(lambda: one.of(list(states.STATES)), 3)
    fetched = ["loss", "states", "rows", "norm", "loss again"]
    return program.Program(
        inputs=one.half("columns", one.rarely([DIVIDED_INPUTS], [layers.INPUTS])),
        layers=one.several(lambda: one.rarely(DIVIDED_LAYERS, MIXING_LAYERS), 2),
        loss=one.rarely(DIVIDED_LOSSES, losses.MIXING),
        term=one.half("none", losses.TERMS),
        states=kept,
        when=one.of(["beside", "before", "after"]) if kept else "beside",
        optimiser=one.of([*optimisers.OPTIMISERS, *optimisers.BY_HAND]),
        rate=one.half("constant", optimisers.RATES),
        transform=one.half("plain", optimisers.TRANSFORMS),
        guard=one.half("always", optimisers.GUARDS),
        accumulated=one.rarely([False], [True]),
        averaged=one.rarely(["no"], ["weights", "slow"]),
        second=one.rarely(["no"], program.SECONDS[1:]),
        fetches=one.several(lambda: one.of(fetched), 3),
        interlude=one.half("none", program.INTERLUDES),
        variables=variables,
        flow="v1" if variables == "ref" else one.of(["v2", "v1"]),
        sizes=one.of(list(feeds.SIZES)),
        called=one.of([True, False, True]),
        seed=one.of(list(range(100))),
    )


@st.composite
def programs(draw: Any) -> program.Program:
    """Returns programs that a stock session always trains alike."""
    return draw(st.builds(lambda: compose(lambda names: draw(st.sampled_from(names)))).filter(fits))
