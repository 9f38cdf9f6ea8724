"""Updates of drawn programs: optimisers, rates and transformations of gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
train = tf1.train
Pairs = list[tuple[Any, Any]]

# --------------------------------------------------------------------------------- rates

RATES = {
    "constant": lambda s, loss: 0.03,
    "fed": lambda s, loss: s.feed("rate"),
    "exponential": lambda s, loss: train.exponential_decay(
        tf.constant(0.05, tf.float64), s.step, 20, 0.9
    ),
    "piecewise": lambda s, loss: train.piecewise_constant(
        s.step, [40, 120], [np.float64(0.04), np.float64(0.02), np.float64(0.01)]
    ),
    "cosine": lambda s, loss: 0.02 + 0.02 * tf.cos(s.real_step / 100.0),
    "warm-up": lambda s, loss: 0.04 * tf.minimum((s.real_step + 1.0) / 90.0, 1.0),
    "by the loss": lambda s, loss: 0.04 / (1.0 + tf.stop_gradient(loss) ** 2),
}

# ---------------------------------------------------------------------------- optimisers

OPTIMISERS = {
    "gd": train.GradientDescentOptimizer,
    "momentum": lambda rate: train.MomentumOptimizer(rate, 0.8),
    "nesterov": lambda rate: train.MomentumOptimizer(rate, 0.8, use_nesterov=True),
    "adam": train.AdamOptimizer,
    "adagrad": train.AdagradOptimizer,
    "rmsprop": train.RMSPropOptimizer,
    "centered rmsprop": lambda rate: train.RMSPropOptimizer(rate, epsilon=1e-3, centered=True),
    "ftrl": lambda rate: train.FtrlOptimizer(
        rate, l1_regularization_strength=1e-3, l2_regularization_strength=1e-3
    ),
    "adadelta": lambda rate: train.AdadeltaOptimizer(rate, epsilon=1e-4),
}


def sgd_by_hand(s: Any, rate: Any, pairs: Pairs) -> list[Any]:
    return [tf1.assign_sub(v, rate * g) for g, v in _dense(pairs)]


def momentum_by_hand(s: Any, rate: Any, pairs: Pairs) -> list[Any]:
    updates = []
    for g, v in _dense(pairs):
        slot = _slot(s, v, "velocity")
        new = tf1.assign(slot, 0.8 * slot + g)
        updates += [new, tf1.assign_sub(v, rate * new)]
    return updates


def adam_by_hand(s: Any, rate: Any, pairs: Pairs) -> list[Any]:
    updates = []
    for g, v in _dense(pairs):
        first, second = _slot(s, v, "first"), _slot(s, v, "second")
        m = tf1.assign(first, 0.9 * first + 0.1 * g)
        u = tf1.assign(second, 0.99 * second + 0.01 * tf.square(g))
        updates += [m, u, tf1.assign_sub(v, rate * m / (tf.sqrt(u) + 1e-2))]
    return updates


def trust_ratio(s: Any, rate: Any, pairs: Pairs) -> list[Any]:
    """Steps by the norms of weights and gradients (LARS)."""
    updates = []
    for g, v in _dense(pairs):
        ratio = tf.norm(v) / (tf.norm(g) + 0.1)
        updates.append(tf1.assign_sub(v, 0.1 * rate * ratio * g))
    return updates


def written_back(s: Any, rate: Any, pairs: Pairs) -> list[Any]:
    """New weights in a range, assigned."""
    return [tf1.assign(v, tf.clip_by_value(v - rate * g, -1.0, 1.0)) for g, v in _dense(pairs)]


BY_HAND = {
    "sgd by hand": sgd_by_hand,
    "momentum by hand": momentum_by_hand,
    "adam by hand": adam_by_hand,
    "trust ratio": trust_ratio,
    "written back": written_back,
}


def _dense(pairs: Pairs) -> Pairs:
    return [(tf.convert_to_tensor(g), v) for g, v in pairs]


def _slot(s: Any, variable: Any, name: str) -> Any:
    return s.state(f"{variable.op.name}/{name}", np.zeros(variable.shape.as_list()))


# --------------------------------------------------------------- what is done to gradients


def plain(s: Any, pairs: Pairs) -> Pairs:
    return pairs


def clipped_by_global_norm(s: Any, pairs: Pairs) -> Pairs:
    clipped, norm = tf.clip_by_global_norm([g for g, _ in pairs], 0.7)
    s.values["norm"] = norm
    return [(g, v) for g, (_, v) in zip(clipped, pairs)]


def clipped_by_norm(s: Any, pairs: Pairs) -> Pairs:
    return [(tf.clip_by_norm(g, 0.4), v) for g, v in _dense(pairs)]


def clipped_by_value(s: Any, pairs: Pairs) -> Pairs:
    return [(tf.clip_by_value(g, -0.2, 0.2), v) for g, v in _dense(pairs)]


def decayed(s: Any, pairs: Pairs) -> Pairs:
    """Weight decay added to the gradients."""
    return [(g + 0.01 * v, v) for g, v in _dense(pairs)]


def scaled_by_state(s: Any, pairs: Pairs) -> Pairs:
    """Scales gradients by a moving average of their norm."""
    norm = tf.linalg.global_norm([g for g, _ in pairs])
    kept = s.state("norm_seen", 1.0)
    new = tf1.assign(kept, 0.9 * kept + 0.1 * norm)
    return [(g / (0.5 + new), v) for g, v in _dense(pairs)]


def centralised(s: Any, pairs: Pairs) -> Pairs:
    """Gradients of matrices without their mean."""
    return [
        (g - tf.reduce_mean(g, 0, keepdims=True) if len(g.shape) > 1 else g, v)
        for g, v in _dense(pairs)
    ]


def slow_weights(s: Any, pairs: Pairs) -> Pairs:
    """The first weights at a tenth of the rate."""
    return [(g * (0.1 if k == 0 else 1.0), v) for k, (g, v) in enumerate(_dense(pairs))]


def loss_scaled(s: Any, pairs: Pairs) -> Pairs:
    """Scales by a number that grows while gradients are finite; skips other steps."""
    scale, good = s.state("loss_scale", 8.0), s.state("good_steps", np.int32(0))
    grads = [g for g, _ in _dense(pairs)]
    finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(g)) for g in grads])
    count = tf1.assign(good, tf1.where(finite, good + 1, tf.zeros_like(good + 0)))
    grown = tf.where(tf.equal(count % 50, 0), 2.0 * scale, tf.identity(scale))
    s.after.append(tf1.assign(scale, grown))
    return [(g, v) for g, (_, v) in zip(grads, pairs)]


def signs(s: Any, pairs: Pairs) -> Pairs:
    """Replaces gradients by the signs of their moving averages."""
    given = []
    for g, v in _dense(pairs):
        kept = _slot(s, v, "moving")
        moving = tf1.assign(kept, 0.9 * kept + 0.1 * g)
        given.append((moving / (tf.abs(moving) + 1e-3), v))
    return given


def projected(s: Any, pairs: Pairs) -> Pairs:
    """Gradients without their part along the weights."""
    given = []
    for g, v in _dense(pairs):
        along = tf.reduce_sum(g * v) / (tf.reduce_sum(tf.square(v)) + 0.1)
        given.append((g - along * v, v))
    return given


def noisy(s: Any, pairs: Pairs) -> Pairs:
    """Stateless noise by the step, of the size of the gradients' norms."""
    seed = tf.stack([tf.cast(s.step, tf.int32), 9])
    return [
        (g + 0.1 * tf.norm(g) * tf.random.stateless_normal(tf.shape(g), seed, dtype=g.dtype), v)
        for g, v in _dense(pairs)
    ]


def skipped_if_large(s: Any, pairs: Pairs) -> Pairs:
    """Skips the step if gradients are much larger than before."""
    norm = tf.linalg.global_norm([g for g, _ in pairs])
    kept = s.state("usual_norm", 1.0)
    usual = kept + 0.0
    s.after.append(tf1.assign(kept, 0.9 * usual + 0.1 * norm))
    scale = tf.cast(norm < 1.5 * usual, tf.float64)
    return [(scale * g, v) for g, v in _dense(pairs)]


TRANSFORMS = {
    "plain": plain,
    "clipped by global norm": clipped_by_global_norm,
    "clipped by norm": clipped_by_norm,
    "clipped by value": clipped_by_value,
    "decayed": decayed,
    "scaled by state": scaled_by_state,
    "centralised": centralised,
    "slow weights": slow_weights,
    "loss scaled": loss_scaled,
    "signs": signs,
    "projected": projected,
    "noisy": noisy,
    "skipped if large": skipped_if_large,
}

# ------------------------------------------------------------------------ conditions


def _always(s: Any, loss: Any, apply: Any) -> Any:
    return apply()


def _if(condition: Any) -> Any:
    def guarded(s: Any, loss: Any, apply: Any) -> Any:
        def applied() -> Any:
            with tf.control_dependencies([apply()]):
                return tf.constant(True)

        return tf1.cond(condition(s, loss), applied, lambda: tf.constant(False)).op

    return guarded


GUARDS = {
    "always": _always,
    "on a flag": _if(lambda s, loss: s.feed("often")),
    "below a threshold": _if(lambda s, loss: loss < 1.2),
    "if finite": _if(lambda s, loss: tf.math.is_finite(loss)),
    "by a norm": _if(lambda s, loss: s.values.get("norm", loss) < 2.0),
}


def update(s: Any, program: Any, loss: Any) -> Any:
    """The training step of the program on a loss."""
    rate = RATES[program.rate](s, loss)
    weights = list(s.weights.values())
    if program.optimiser in BY_HAND:
        grads = tf.gradients(loss, weights)
        pairs = [(g, v) for g, v in zip(grads, weights) if g is not None]
    else:
        optimiser = OPTIMISERS[program.optimiser](rate)
        pairs = [p for p in optimiser.compute_gradients(loss, weights) if p[0] is not None]
    pairs = TRANSFORMS[program.transform](s, pairs)
    if program.accumulated:
        pairs = accumulated(s, pairs)

    def apply() -> Any:
        if program.optimiser in BY_HAND:
            updates = BY_HAND[program.optimiser](s, rate, pairs)
            with tf.control_dependencies(updates):  # after the rates have been read
                return tf1.assign_add(s.step, 1).op
        return optimiser.apply_gradients(pairs, s.step)

    if program.optimiser in BY_HAND:
        grads = [tf.convert_to_tensor(g) for g, _ in pairs]
        with tf.control_dependencies(grads):
            return GUARDS[program.guard](s, loss, apply)
    return GUARDS[program.guard](s, loss, apply)


def accumulated(s: Any, pairs: Pairs) -> Pairs:
    """Gradients of four steps, given in the fourth, zeros in the others."""
    count = s.state("accumulated", np.int64(0))
    now = tf1.assign_add(count, 1)
    due = tf.equal(now % 4, 0)
    given = []
    for g, v in _dense(pairs):
        kept = _slot(s, v, "accumulator")
        new = kept + g
        zeros = tf.zeros_like(new)
        new = tf.identity(new)
        with tf.control_dependencies([new]):
            s.after.append(tf1.assign(kept, tf.where(due, zeros, new)))
        given.append((tf.where(due, 0.25 * new, zeros), v))
    return given
