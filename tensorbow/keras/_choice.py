"""Synchronisers of Keras models, and the options of the sessions that train them."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras

from tensorbow._runtime.messages import warn
from tensorbow.keras import _tracing
from tensorbow.options import Options
from tensorbow.synchronisers import EASGD, SMA, SSGD, Synchroniser

_CENTRAL_MOMENTUM = 0.9  # μ of z if the learners' optimiser has none
_STRONG = 0.9  # two such momenta are too much


def choose(options: Options) -> Synchroniser:
    """Returns the synchroniser of a model: the user's; for "auto" the one that makes Keras's own
    step.

    Where several learners cannot make it, the session has it made by one.
    """
    return SSGD() if isinstance(options.synchroniser, str) else options.synchroniser


def watches_rates(synchroniser: Synchroniser, num_learners: int) -> bool:
    """Returns true if a drop of the learning rate restarts the averaging."""
    if num_learners == 1 or not isinstance(synchroniser, (SMA, EASGD)):
        return False
    return synchroniser.restart == "lr_drop"


def session_options(
    model: Any, options: Options, synchroniser: Synchroniser, num_learners: int
) -> Options:
    """Returns the options of the session that trains a model with this synchroniser.

    Keras knows some of the session's choices better: the momentum of z, by the model's optimisers,
    restarts, which `RateWatch` asks for, and the number of learners. With averaged gradients every
    number makes the same step, to rounding, so that the session may find the best one.
    """
    if isinstance(synchroniser, SMA) and synchroniser.centre == "lagging":
        synchroniser = _with_central_momentum(model, synchroniser, num_learners)
    if watches_rates(synchroniser, num_learners):
        assert isinstance(synchroniser, (SMA, EASGD))
        synchroniser = dataclasses.replace(synchroniser, restart="never")
    may_tune = isinstance(synchroniser, SSGD) and options.may_tune_learners
    if not may_tune or num_learners < options.learners_on(0):  # there is memory for fewer
        options = dataclasses.replace(options, learners_per_device=num_learners)
    return dataclasses.replace(options, synchroniser=synchroniser)


def _with_central_momentum(model: Any, synchroniser: SMA, num_learners: int) -> SMA:
    """Returns SMA with the lagging centre and a momentum that suits the model's optimisers."""
    momenta = [_momentum_of(optimiser) for optimiser in _tracing.optimisers_of(model)]
    central = synchroniser.momentum
    if central is None or central == "auto":
        if not momenta:
            return synchroniser
        plain = all(momentum == 0 for momentum in momenta)
        return dataclasses.replace(synchroniser, momentum=_CENTRAL_MOMENTUM if plain else 0.0)
    strongest = max((momentum or 0 for momentum in momenta), default=0)
    if num_learners > 1 and central >= _STRONG and strongest >= _STRONG:
        warn(
            f"The learners' optimiser has momentum {strongest:g} and the central model has "
            f"momentum {central:g}. Together they shrink the usable learning rate 2- to 8-fold; "
            'momentum="auto" leaves the central model\'s out.'
        )
    return synchroniser


def _momentum_of(optimiser: Any) -> float | None:
    """Returns the momentum of plain gradient descent; None for optimisers that adapt."""
    optimiser = getattr(optimiser, "inner_optimizer", optimiser)
    if type(optimiser) is not keras.optimizers.SGD:
        return None
    return float(optimiser.momentum)
