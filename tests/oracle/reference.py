"""The reference for TensorBow: stock sessions train, NumPy averages.

Every learner is a stock session that is given the learner's values and trains on its rows. The
values then follow the formulas of ALGORITHMS.md and the rules of docs/feeds.md and docs/state.md,
which the comments quote.
"""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import tensorflow as tf

import tensorbow

tf1 = tf.compat.v1

# Nothing is compared bit for bit, and optimising the tiny graphs would take longer.
_CONFIG = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
_CONFIG.graph_options.rewrite_options.disable_meta_optimizer = True


def _mean(values, weights=None):
    """Returns the mean in float64, whatever the values are."""
    exact = [np.asarray(value, np.float64) for value in values]
    return np.average(exact, axis=0, weights=weights).astype(values[0].dtype)


def _mean_gradient(parts, weights):
    """Returns the mean of dense gradients, or of gradients of some rows: then of the union of
    rows."""
    if isinstance(parts[0], np.ndarray):
        return _mean(parts, weights)
    rows = np.unique(np.concatenate([part.indices for part in parts]))
    values = []
    for part in parts:
        values.append(np.zeros((len(rows), *part.values.shape[1:]), part.values.dtype))
        np.add.at(values[-1], np.searchsorted(rows, part.indices), part.values)
    return parts[0]._replace(values=_mean(values, weights), indices=rows)


class Replica:
    """A stock session that holds one learner's values while they are used."""

    def __init__(self, built):
        self._built = built
        self._session = tf1.Session(graph=built.graph, config=_CONFIG)

    def load(self, values):
        """Sets variables, by name."""
        variables = self._built.variables
        initialisers = [variables[name].initializer for name in values]
        feeds = {
            op.inputs[1]: value for op, value in zip(initialisers, values.values(), strict=True)
        }
        self._session.run(initialisers, feeds)

    def values(self, names):
        """Returns values of variables, by name."""
        variables = self._built.variables
        return self._session.run({name: variables[name] for name in names})

    def run(self, fetches, feeds=None):
        """Executes a run on the loaded values."""
        return self._session.run(fetches, feeds)

    def close(self):
        self._session.close()


@dataclasses.dataclass
class Knowledge:
    """The complete state of a session, which `save_state` saves."""

    values: list  # of every learner: its variables, by name
    z: dict = dataclasses.field(default_factory=dict)  # of trainable variables
    z_prev: dict = dataclasses.field(default_factory=dict)
    average: dict = dataclasses.field(default_factory=dict)
    averaged: dict = dataclasses.field(default_factory=dict)  # iterations since it started
    present: dict = dataclasses.field(default_factory=dict)
    learned: dict = dataclasses.field(default_factory=dict)  # by whom, since all were equal
    # Values read when the number of learners changed, until they learn or are written.
    read: dict = dataclasses.field(default_factory=dict)
    counts: dict = dataclasses.field(default_factory=dict)  # iterations of one kind of run
    rates: dict = dataclasses.field(default_factory=dict)
    restart: bool = False
    iterations: int = 0
    learning_tasks: int = 0
    samples_seen: int = 0


class Reference:
    """A session's learners, their centre and the session's counters."""

    def __init__(self, built, setup):
        self.built = built
        self.synchroniser = setup.chosen(built.program)
        self.kind = type(self.synchroniser)
        self.averages = self.kind in (tensorbow.SMA, tensorbow.EASGD)
        self.lagging = self.averages and getattr(self.synchroniser, "centre", "lagging") != (
            "current"
        )
        self.momentum = setup.momentum(built.program) if self.kind is tensorbow.SMA else 0.0
        self.period = getattr(self.synchroniser, "sync_period", 1)
        self.replicas = []
        self._use(setup.learners)
        self.known = Knowledge([{} for _ in self.learners])

    def _use(self, learners):
        """Uses this number of learners from now on."""
        self.learners = range(learners)
        self.alpha = getattr(self.synchroniser, "alpha", None) or 1 / learners
        # "With one learner z is the model itself, whatever the synchroniser."
        decay = getattr(self.synchroniser, "ema_decay", None)
        self.decay = decay if learners > 1 else None
        while len(self.replicas) < learners:
            self.replicas.append(Replica(self.built))

    def set_learners(self, learners):
        """Changes the number of learners.

        "The central model is what it was. Where models are averaged all replicas begin at it.
        Learners that stay keep their slots and statistics; new ones begin with copies of learner
        0's. With one learner slots are the learners' mean."
        """
        known, before = self.known, len(self.learners)
        if learners == before:
            return
        if before == 1:
            self._use(learners)
            own, known.values = known.values[0], [{} for _ in self.learners]
            self.assign(own)
            return
        self.restart_as_asked()
        untrained = [name for name in self.initialised() if name not in known.z]
        known.read = {name: self.central(name) for name in untrained}
        if learners == 1:
            values = {name: self.central(name, averaged=False) for name in self.initialised()}
            known.values = [values]
        else:
            while len(known.values) < learners:
                known.values.append(dict(known.values[0]))
            del known.values[learners:]
        self._use(learners)
        for name in self.initialised():
            known.learned[name] &= set(self.learners) if learners > 1 else set()
            if name not in known.z:
                continue
            known.present[name] = set(self.learners)
            for own in known.values:
                if self.averages:
                    own[name] = known.z[name]

    def close(self):
        for replica in self.replicas:
            replica.close()

    def save(self):
        """Returns the complete state."""
        return copy.deepcopy(self.known)

    def load(self, saved):
        """Restores a saved state."""
        self.known = copy.deepcopy(saved)
        self._use(len(saved.values))

    # ------------------------------------------------------------------- central values

    def initialised(self):
        """Returns the names of the variables that have values."""
        return list(self.known.values[0])

    def central(self, name, averaged=True):
        """Returns the central model's value of a variable."""
        known = self.known
        if name in known.z:
            return known.average[name] if averaged and self.decay else known.z[name]
        if name in known.read:
            return known.read[name]
        own = [values[name] for values in known.values]
        # "Integers and booleans: the central value is learner 0's." `Independent`: "learner
        # 0's replica stands for the model wherever the central model is asked for".
        if own[0].dtype.kind != "f" or self.kind is tensorbow.Independent:
            return own[0]
        # "Optimiser slots … read from outside they are the learners' mean", "so is every other
        # floating-point state a training step writes". A learner without a task since all had the
        # same value has none of its own: runs of one row train one learner, and leave the values of
        # a stock session.
        return _mean([own[j] for j in sorted(known.learned[name]) or self.learners])

    def centre(self):
        """Returns the central values of all variables."""
        return {name: self.central(name) for name in self.initialised()}

    def read(self, fetches, feeds=None):
        """Executes a run that reads: "executed on the central model"."""
        self.replicas[0].load(self.centre())
        return self.replicas[0].run(fetches, feeds)

    def write(self, op, names, feeds=None):
        """Executes a run that writes `names`: "they run once, on z, and reach every learner"."""
        if self.initialised():
            self.replicas[0].load(self.centre())
        self.replicas[0].run(op, feeds)
        self.assign(self.replicas[0].values(names))

    def assign(self, values):
        """Starts all replicas from the written value, without momentum; starts a new average."""
        known = self.known
        for name, value in values.items():
            known.learned[name] = set()
            known.read.pop(name, None)
            for own in known.values:
                own[name] = np.array(value)
            if name in self.built.trainable:
                known.z[name] = known.z_prev[name] = known.average[name] = np.array(value)
                known.averaged[name] = 0
                known.present[name] = set(self.learners)

    # ------------------------------------------------------------------------- training

    def restart(self, names):
        """Sets replicas of some variables to z, whose momentum is forgotten."""
        known = self.known
        for name in names:
            known.z_prev[name] = known.z[name]
            known.present[name] = set(self.learners)
            for own in known.values:
                own[name] = known.z[name]

    def restart_as_asked(self):
        """Restarts if asked: every replica becomes the central model before the run."""
        if self.known.restart and self.averages and len(self.learners) > 1:
            self.restart(self.known.z)
        self.known.restart = False

    def begin_run(self, kind, rate, op):
        """Does everything due before a learning run; `kind`: its feeds and fetches."""
        known = self.known
        if self.averages and len(self.learners) > 1:
            # "When the learning rate falls to half or less from one iteration to the next";
            # an update written by hand has no such input.
            by_hand = self.built.program.optimiser.startswith("hand")
            last = known.rates.get(kind, 0)
            dropped = getattr(self.synchroniser, "restart", "never") == "lr_drop" and not by_hand
            if known.restart:
                self.restart_as_asked()
            elif dropped and rate <= last / 2:
                self.restart(op.trained)
        if len(self.learners) > 1:
            known.rates[kind] = rate  # a lone learner's are not watched
        known.restart = False

    def before_tasks(self, op, active):
        """Prepares tasks.

        A learner that had no task in the last iteration "starts its next task from z". That holds
        for the variables that the task reads or trains, without those that an extension adds.
        """
        known = self.known
        if self.kind is tensorbow.Independent:
            return  # each trains on its own
        for j in active:
            for name in known.z:
                if name == "late" and "late" not in op.trained:
                    continue
                if j not in known.present[name]:
                    known.values[j][name] = known.z[name]

    def iteration(self, op, kind, feeds, fetch=None, rows=None):
        """Executes one learning task of every learner in `feeds`, and its synchronisation.

        `rows`: of each of them, if the rows of a run are divided: "the average is weighted by rows"
        of gradients.

        Returns the learners' values of `fetch` ("computed from their own replicas before the
        update").
        """
        known, active = self.known, sorted(feeds)
        self.before_tasks(op, active)
        fetched = [self._run(j, fetch, feeds[j]) for j in active if fetch is not None]
        if self.kind is tensorbow.SSGD and len(self.learners) > 1:
            gradients = [self._run(j, op.gradients, feeds[j]) for j in active]
            mean = [_mean_gradient(parts, rows) for parts in zip(*gradients)]
            averaged = dict(zip(op.gradients, mean))
            feeds = {j: feed | averaged for j, feed in feeds.items()}
        before = {j: {n: known.values[j][n] for n in op.trained} for j in active}
        for j in active:
            self._run(j, op.op, feeds[j])
            known.values[j] |= self.replicas[j].values(op.written)
        known.counts[kind] = known.counts.get(kind, 0) + 1
        due = known.counts[kind] % self.period == 0
        if self.averages and len(self.learners) > 1:
            self._correct(op.trained, before, active, due)
        for name in op.written:
            known.learned[name] = known.learned[name] | set(active)
            known.read.pop(name, None)
        for name in op.trained:
            known.present[name] = set(active)
            if not self.lagging or len(self.learners) == 1:
                known.z[name] = self._mean(name, active)
        if self.kind is tensorbow.SSGD:
            # "It gets the weights, slots and other state of a learner that had one."
            for j in set(self.learners) - set(active):
                known.values[j] |= {name: known.values[active[0]][name] for name in op.written}
        if due or not self.lagging:
            self._move_averages(op.trained)
        known.iterations += 1
        known.learning_tasks += len(active)
        return fetched

    def _run(self, j, fetches, feeds):
        self.replicas[j].load(self.known.values[j])
        return self.replicas[j].run(fetches, feeds)

    def _mean(self, name, active):
        if self.kind is tensorbow.Independent:
            return self.known.values[0][name]
        if self.kind is tensorbow.SSGD:
            return self.known.values[active[0]][name]
        return _mean([self.known.values[j][name] for j in active])

    def _correct(self, names, before, active, due):
        """Corrects: c_j = α (w_j − z), w_j before the update; a lagging z moves by their sum."""
        known = self.known
        for name in names:
            if not due:
                continue
            z, total = known.z[name], np.zeros_like(known.z[name])
            for j in active:
                correction = self.alpha * (before[j][name] - z)
                known.values[j][name] = known.values[j][name] - correction
                total = total + correction
            if self.lagging:
                known.z[name] = z + total + self.momentum * (z - known.z_prev[name])
                known.z_prev[name] = z

    def _move_averages(self, names):
        """Moves the averages: z̄ ← d·z̄ + (1−d)·z with d = min(ema_decay, (1+t)/(10+t))."""
        if not self.decay:
            return
        known = self.known
        for name in names:
            t = known.averaged[name]
            d = min(self.decay, (1 + t) / (10 + t))
            known.average[name] = d * known.average[name] + (1 - d) * known.z[name]
            known.averaged[name] = t + 1

    def gathered(self, names):
        """Returns the first values of a run that one learner executes on the central model."""
        known = self.known
        return {
            name: self._mean(name, sorted(known.present[name]))
            if name in known.z
            else self.central(name)
            for name in names
        }

    def undivided(self, op, feeds, fetch=None):
        """Executes a run by one learner on the central model.

        "It goes on from the replicas' mean. Before such a run optimiser slots are the mean
        of the learners' slots; after it all replicas start from the new z, with the same
        slots."
        """
        known = self.known
        self.replicas[0].load(self.gathered(self.initialised()))
        fetched = None if fetch is None else self.replicas[0].run(fetch, feeds)
        self.replicas[0].run(op.op, feeds)
        self.assign(self.replicas[0].values(op.written))
        known.iterations += 1
        known.learning_tasks += 1
        return fetched
