"""The sessions that are compared: stock, and TensorBow with each of its synchronisers."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

STOCK_NAME = "tf.Session"


@dataclasses.dataclass(frozen=True)
class Way:
    """A kind of session.

    Attributes:
      name: as it appears in tables.
      synchroniser: a class of tensorbow; "" is a stock session, "default" what `Options` has.
      arguments: of the synchroniser.
    """

    name: str
    synchroniser: str = ""
    arguments: dict[str, Any] = dataclasses.field(default_factory=dict)

    def settings(self, learners: int) -> dict[str, Any]:
        """The settings as JSON, for `session`."""
        return {
            "synchroniser": self.synchroniser,
            "arguments": self.arguments,
            "learners": learners if self.synchroniser else 1,
        }


STOCK = Way(STOCK_NAME)
DEFAULT = Way("TensorBow", "default")
SMA = Way("SMA", "SMA")
SYNCHRONISERS = [
    SMA,
    Way("SMA, lagging centre", "SMA", {"centre": "lagging"}),
    Way("SSGD", "SSGD"),
    Way("Independent", "Independent"),
]


def missing(way: Way) -> str | None:
    """Returns the feature that the installed package lacks for this way; None if none."""
    if way.synchroniser in ("", "default"):
        return None
    import tensorbow

    made = getattr(tensorbow, way.synchroniser, None)
    if made is None:
        return f"tensorbow.{way.synchroniser}"
    for name in way.arguments:
        if name not in inspect.signature(made).parameters:
            return f"{name} of tensorbow.{way.synchroniser}"
    return None


def available(found: list[Way]) -> tuple[list[Way], list[str]]:
    """Returns the ways that the installed package supports, and a sentence for each other one."""
    absent = {way.name: what for way in found if (what := missing(way))}
    known = [way for way in found if way.name not in absent]
    return known, [f"{name} is not measured: no {what} here." for name, what in absent.items()]


def session(graph: Any, synchroniser: str, arguments: dict[str, Any], learners: int) -> Any:
    """Makes a session on `graph`; the arguments are those of `Way.settings`."""
    import tensorflow as tf

    import tensorbow

    if not synchroniser:
        return tf.compat.v1.Session(graph=graph)
    options: dict[str, Any] = {"learners_per_device": learners}
    if synchroniser != "default":
        options["synchroniser"] = getattr(tensorbow, synchroniser)(**arguments)
    return tensorbow.TensorBowSession(graph=graph, options=tensorbow.Options(**options))
