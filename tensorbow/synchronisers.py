"""Synchronisers: the ways to keep the learners' replicas together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Literal

from tensorbow._runtime.checks import is_int, is_number, is_one_of
from tensorbow._runtime.messages import suggests_names
from tensorbow.adaptive import AdaptiveSGD

MAX_SYNC_PERIOD = 2**31 - 1


def _check_alpha(who: str, alpha: object) -> None:
    if alpha is None:
        return
    if not is_number(alpha):
        raise TypeError(f"{who}: alpha must be a number or None, got {alpha!r}")
    if not (math.isfinite(alpha) and alpha > 0):
        raise ValueError(
            f"{who}: alpha must be greater than 0, got {alpha}; leave it out for 1 / number "
            "of learners"
        )


def _check_ema_decay(who: str, ema_decay: object) -> None:
    if ema_decay is None:
        return
    if not is_number(ema_decay):
        raise TypeError(f"{who}: ema_decay must be a number or None, got {ema_decay!r}")
    if not 0 < ema_decay < 1:
        raise ValueError(
            f"{who}: ema_decay must be between 0 and 1, got {ema_decay}; leave it out for "
            "no moving average"
        )


def check_period(who: str, sync_period: object) -> None:
    """Raises TypeError or ValueError if it is no number of iterations."""
    if not is_int(sync_period):
        raise TypeError(f"{who}: sync_period must be an int, got {sync_period!r}")
    if not 1 <= sync_period <= MAX_SYNC_PERIOD:
        raise ValueError(
            f"{who}: sync_period must be from 1 to {MAX_SYNC_PERIOD}, got {sync_period}"
        )


def _check_averaging(who: str, sync_period: object, restart: object, ema_decay: object) -> None:
    check_period(who, sync_period)
    if isinstance(restart, str):
        if restart not in ("lr_drop", "never"):
            raise ValueError(
                f'{who}: restart must be "lr_drop", "never" or a callable, got {restart!r}'
            )
    elif not callable(restart):
        raise TypeError(f'{who}: restart must be "lr_drop", "never" or a callable, got {restart!r}')
    _check_ema_decay(who, ema_decay)


def _check_centre(who: str, centre: object) -> None:
    if not is_one_of(centre, "current", "lagging"):
        raise ValueError(f'{who}: centre must be "current" or "lagging", got {centre!r}')


def _check_lagging_alpha(who: str, alpha: float | None, num_learners: int) -> None:
    bound = 2 / (num_learners + 1)
    if num_learners > 1 and alpha is not None and alpha >= bound:
        raise ValueError(
            f"{who}: alpha must be less than 2 / (L + 1) = {bound:.4g} with L = "
            f"{num_learners} learners (the averaging diverges from there on), got "
            f"{alpha}; leave it out for 1 / L = {1 / num_learners:.4g}"
        )


@suggests_names()
@dataclasses.dataclass(frozen=True)
class SMA:
    """Synchronous model averaging.

    Every learner j trains a replica w_j. In one iteration it computes its optimiser's
    update u_j on a batch of its own, and a correction pulls the replica towards the
    central model z. The session evaluates, fetches and saves z. The learners' values are
    summed in learner order. There are two forms.

    `centre="current"`: z is the mean of the replicas as they are now:

        z   = mean_j w_j
        w_j = w_j + u_j - alpha * (w_j - z)        # w_j before the update

    The corrections add up to zero, so that z moves by exactly the mean of the updates: a
    learning rate means what it means in a stock session. It is the synchronous consensus
    step of decentralised SGD on a complete graph (Lian et al., NeurIPS 2017).

    `centre="lagging"`: z is moved by the corrections (CROSSBOW, VLDB 2019, Algorithm 1):

        c_j = alpha * (w_j - z)                    # w_j before the update
        w_j = w_j + u_j - c_j
        z   = z + sum_j c_j + momentum * (z - z_prev)

    Here z trails the replicas by an iteration and pulls them back: under constant updates
    it moves L / (L + 1 - momentum) times as far as their mean, whatever alpha. For the
    pace of a stock session two learners need 1.5 times its learning rate without
    momentum, 1.05 times with 0.9.

    Args:
      alpha: strength of the correction; None is 1 / L for L learners. 0 < alpha <= 1
        with the current centre, 0 < alpha < 2 / (L + 1) with the lagging one, which
        diverges from there on.
      centre: "current" or "lagging", as above.
      momentum: of the lagging centre, 0 <= momentum < 1; None or "auto" is 0 when the
        learners' optimiser has momentum or is adaptive, else 0.9. The current centre
        takes none.
      sync_period: learning tasks of each learner between two corrections, 1 to 2,147,483,647.
      restart: when all replicas are set to z and the momentum of z is forgotten
        (optimiser slots are kept): "lr_drop" when the learning rate drops to half or
        less from one iteration to the next, "never", or a callable that is given the
        number of completed iterations before every learning run and returns a bool.
      ema_decay: keeps an exponential moving average of z over the iterations t = 0, 1, …
        (with a lagging centre, those that end with corrections), with
        d = min(ema_decay, (1 + t) / (10 + t)), 0 < ema_decay < 1 (0.999 is a good value).
        Reads, evaluation and `Saver` then see the average, and
        `session.central(variable, averaged=False)` gives z. None keeps no average.

    Raises:
      TypeError, ValueError: for an argument outside the ranges above, or a momentum with
        the current centre.

    Example:
      >>> options = tensorbow.Options(synchroniser=tensorbow.SMA(ema_decay=0.999))
      >>> with tensorbow.TensorBowSession(options=options) as sess:
      ...     sess.run(tf.compat.v1.global_variables_initializer())
      ...     sess.run(train_op, feed_dict={x: images, y: labels})
    """

    alpha: float | None = None
    centre: Literal["current", "lagging"] = "current"
    momentum: float | Literal["auto"] | None = None
    sync_period: int = 1
    restart: Literal["lr_drop", "never"] | Callable[[int], bool] = "lr_drop"
    ema_decay: float | None = None

    def __post_init__(self) -> None:
        _check_alpha("SMA", self.alpha)
        _check_centre("SMA", self.centre)
        self._check_momentum()
        if self.centre == "current" and self.alpha is not None and self.alpha > 1:
            raise ValueError(
                "SMA: alpha must be at most 1 (which takes a replica all the way to the "
                f"replicas' mean), got {self.alpha}; leave it out for 1 / number of learners"
            )
        _check_averaging("SMA", self.sync_period, self.restart, self.ema_decay)

    def _check_momentum(self) -> None:
        momentum = self.momentum
        if momentum is None:
            return
        if not is_one_of(momentum, "auto") and not is_number(momentum):
            raise TypeError(f'SMA: momentum must be a number, "auto" or None, got {momentum!r}')
        if self.centre == "current":
            raise ValueError(
                'SMA: momentum belongs to centre="lagging" (the replicas\' mean has no '
                f"predecessor to gain momentum from), got momentum={momentum!r} with "
                'centre="current"; use SMA(centre="lagging", momentum=...), or momentum in '
                "the optimiser"
            )
        if momentum != "auto" and not 0 <= momentum < 1:
            raise ValueError(f"SMA: momentum must be in [0, 1), got {momentum}")

    def check_learners(self, num_learners: int) -> None:
        """Raises ValueError if this synchroniser is unstable with this number of learners."""
        if self.centre == "lagging":
            _check_lagging_alpha("SMA", self.alpha, num_learners)

    def native_options(self) -> dict[str, Any]:
        """Returns attributes of `_native.Options`."""
        momentum = None if self.momentum in (None, "auto") else float(self.momentum)
        return dict(
            algorithm="SMA",
            centre=self.centre,
            alpha=float(self.alpha or 0),
            momentum=momentum if self.centre == "lagging" else 0.0,
            sync_period=self.sync_period,
            ema_decay=float(self.ema_decay or 0),
            restart=self.restart,
        )


@suggests_names()
@dataclasses.dataclass(frozen=True)
class EASGD:
    """Elastic averaging SGD (Zhang, Choromanska and LeCun, NeurIPS 2015), synchronous.

    `SMA(centre="lagging", momentum=0)`, usually with corrections in every sync_period-th
    task of a learner only.

    Args:
      alpha, sync_period, restart, ema_decay: as of `SMA`.

    Raises:
      TypeError, ValueError: for an argument outside the ranges there.
    """

    alpha: float | None = None
    sync_period: int = 1
    restart: Literal["lr_drop", "never"] | Callable[[int], bool] = "lr_drop"
    ema_decay: float | None = None

    def __post_init__(self) -> None:
        _check_alpha("EASGD", self.alpha)
        _check_averaging("EASGD", self.sync_period, self.restart, self.ema_decay)

    def check_learners(self, num_learners: int) -> None:
        """Raises ValueError if this synchroniser is unstable with this number of learners."""
        _check_lagging_alpha("EASGD", self.alpha, num_learners)

    def native_options(self) -> dict[str, Any]:
        """Returns attributes of `_native.Options`."""
        same = SMA(self.alpha, "lagging", 0.0, self.sync_period, self.restart, self.ema_decay)
        return same.native_options()


@suggests_names()
@dataclasses.dataclass(frozen=True)
class SSGD:
    """Synchronous parallel SGD: the learners' gradients are averaged, in learner order.

    All replicas stay equal. One step with L learners equals, to rounding, one step of
    stock TensorFlow with all their rows. Learners exchange values that need all rows, such
    as the moments of batch normalisation.

    It finds gradients where they leave the loss: in TensorFlow's optimiser ops, Keras's
    optimisers and updates written by hand. A run whose gradients are not found is
    executed by one learner, with a warning. Learning rates and other scalars of an update
    have to be the same for all learners: each makes a part of the updates, for all
    replicas.

    Args:
      ema_decay: as of `SMA`; z is what all replicas are.

    Raises:
      TypeError, ValueError: for an argument outside the ranges there.
    """

    ema_decay: float | None = None

    def __post_init__(self) -> None:
        _check_ema_decay("SSGD", self.ema_decay)

    def check_learners(self, num_learners: int) -> None:
        """Accepts any number of learners."""

    def native_options(self) -> dict[str, Any]:
        """Returns attributes of `_native.Options`."""
        return _unaveraged("SSGD", self.ema_decay)


@suggests_names()
@dataclasses.dataclass(frozen=True)
class Independent:
    """No synchronisation: every learner trains on its own.

    For sweeps, ensembles and for measuring what synchronisation costs. Learner 0's
    replica stands for the model wherever the central model is asked for; the others are
    reached with `session.learner_value`.
    """

    def check_learners(self, num_learners: int) -> None:
        """Accepts any number of learners."""

    def native_options(self) -> dict[str, Any]:
        """Returns attributes of `_native.Options`."""
        return _unaveraged("Independent")


def _unaveraged(algorithm: str, ema_decay: float | None = None) -> dict[str, Any]:
    return dict(
        algorithm=algorithm,
        momentum=0.0,
        ema_decay=float(ema_decay or 0),
        restart="never",
    )


Synchroniser = SMA | EASGD | SSGD | Independent | AdaptiveSGD
"""The type of all synchronisers."""

AUTO: Literal["auto"] = "auto"
"""The synchroniser that the first learning run chooses; see `Options`."""


def named(name: str) -> Synchroniser:
    """Returns the synchroniser that "auto" became, by the name the native runtime gives it."""
    kinds = {"SMA": SMA, "SSGD": SSGD, "Independent": Independent, "AdaptiveSGD": AdaptiveSGD}
    return kinds[name]()


def check_learners(choice: Synchroniser | Literal["auto"], num_learners: int) -> None:
    """Raises ValueError if the choice is unstable with this number of learners."""
    if not isinstance(choice, str):
        choice.check_learners(num_learners)


def native_options(choice: Synchroniser | Literal["auto"]) -> dict[str, Any]:
    """Returns attributes of `_native.Options`; "auto" has those of `SMA()`."""
    if isinstance(choice, str):
        return SMA().native_options() | dict(algorithm=choice)
    return choice.native_options()
