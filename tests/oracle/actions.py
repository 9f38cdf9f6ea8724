"""A program's actions on its session besides training: read, write, save, load, fail."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import tensorbow
from tests.oracle import programs
from tests.oracle.described import Described, described

tf1 = tf.compat.v1


@described
class Initialise(Described):
    """Runs the initialiser of all original variables."""

    def apply(self, c):
        names = [name for name in c.built.variables if "late" not in name]
        c.session.run(c.built.init)
        c.reference.write(c.built.init, names)


@described
class Refill(Described):
    """Starts the pipeline again."""

    def apply(self, c):
        if c.program.data == "pipeline":
            c.session.run(c.built.iterator.initializer)
            c.elements_left = programs.ELEMENTS


@described
class Extend(Described):
    """Adds ops and a variable; `Train(op="late")` trains it."""

    def apply(self, c):
        if "late" in c.built.ops:
            return
        before = set(c.built.variables)
        init = c.built.extend()
        c.session.run(init)
        c.reference.write(init, [name for name in c.built.variables if name not in before])


@described
class Undivided(Described):
    """Executes a learning run that is fed different numbers of rows: one learner executes it."""

    rows: int = 4
    rate: float = 0.02

    def apply(self, c):
        if c.program.data == "pipeline" or c.program.dropout:
            return
        if "undivided" not in c.built.ops:
            c.built.add_undivided()
        op = c.built.ops["undivided"]
        other = np.ones(self.rows + 1, c.program.dtype)
        feeds = c.built.feeds(c.draw(self.rows), self.rate) | {c.built.other: other}
        c.session.run(op.op, feeds)
        c.reference.begin_run("undivided", self.rate, op)
        # It is open which of the feeds are the rows, or whether it is "a task without rows".
        seen = c.session.samples_seen - c.reference.known.samples_seen
        assert seen in (1, self.rows, self.rows + 1), f"{seen} samples"
        c.reference.known.samples_seen += seen
        c.reference.undivided(op, feeds)


@described
class Evaluate(Described):
    """Reads the loss of some rows, by the central model."""

    rows: int = 5

    def apply(self, c):
        rows = programs.ELEMENT_ROWS if c.program.data == "pipeline" else self.rows
        feeds = c.built.feeds(c.draw(rows))
        for noise in c.built.noises:
            shape = (rows, programs.HIDDEN)
            feeds[noise] = np.full(shape, programs.NO_DROPOUT, noise.dtype.as_numpy_dtype)
        expected = c.reference.read(c.built.evaluated, feeds)
        c.close_to(c.session.run(c.built.evaluated, feeds), expected, "the loss that is read")


@described
class Assign(Described):
    """Writes one variable, the n-th that has a value."""

    which: int = 0
    how: str = "load"  # "add"

    def apply(self, c):
        names = c.reference.initialised()
        name = names[self.which % len(names)]
        variable = c.built.variables[name]
        if self.how == "add":
            c.session.run(c.built.adding_one_to(name))
            value = c.reference.central(name) + 1
        else:
            old = c.reference.central(name)
            value = np.asarray(0.5 * old + 1, old.dtype)
            variable.load(value, c.session)
        c.reference.assign({name: value})


@described
class Restart(Described):
    """Calls `session.restart()`, which takes effect in the next learning run."""

    def apply(self, c):
        c.session.restart()
        c.reference.known.restart = True


@described
class SetLearners(Described):
    """Changes the number of learners."""

    learners: int = 3

    def apply(self, c):
        lagging = isinstance(c.setup.synchroniser, tensorbow.EASGD) or (
            getattr(c.setup.synchroniser, "centre", "") == "lagging"
        )
        alpha = getattr(c.setup.synchroniser, "alpha", None)
        if lagging and alpha and self.learners > 1 and alpha >= 2 / (self.learners + 1):
            with pytest.raises(ValueError, match="the averaging diverges"):
                c.session.set_learners(self.learners)
            return
        c.session.set_learners(self.learners)
        c.reference.set_learners(self.learners)
        c.setup = dataclasses.replace(c.setup, learners=self.learners)


@described
class SaveState(Described):
    """Calls `save_state`, which replaces an earlier state."""

    def apply(self, c):
        c.session.save_state(c.directory / "state")
        c.reference.restart_as_asked()  # the saved state includes the restart
        c.saved = c.reference.save()


@described
class LoadState(Described):
    """Calls `load_state`, in the same session or in a new one."""

    fresh: bool = False

    def apply(self, c):
        if c.saved is None:
            return
        if set(c.built.variables) != set(c.saved.values[0]):
            with pytest.raises(tf.errors.FailedPreconditionError, match="of another graph"):
                c.session.load_state(c.directory / "state")
            return
        if self.fresh:
            c.reopen()
            Refill().apply(c)
        c.session.load_state(c.directory / "state")
        c.reference.load(c.saved)
        c.setup = dataclasses.replace(c.setup, learners=len(c.saved.values))


@described
class SaverSave(Described):
    """Calls `Saver.save`: the central values."""

    def apply(self, c):
        path = c.built.saver.save(c.session, str(c.directory / "model"), write_meta_graph=False)
        names = {v.op.name for v in c.built.saver._var_list or c.built.variables.values()}
        values = {name: c.reference.central(name) for name in names}
        reader = tf1.train.load_checkpoint(path)
        for name, value in values.items():
            c.close_to(reader.get_tensor(name), value, f"{name!r} in the checkpoint")
        c.checkpoint = c.built.saver, path, values


@described
class SaverRestore(Described):
    """Calls `Saver.restore`: all replicas start from the saved values, without momentum."""

    def apply(self, c):
        if c.checkpoint is None:
            return
        saver, path, values = c.checkpoint
        saver.restore(c.session, path)
        c.reference.assign(values)


@described
class Refuse(Described):
    """Executes a run that is refused before anything is trained."""

    what: str = "shape"  # "dtype", "no_rows", "unknown"

    def apply(self, c):
        x, ids, y = c.draw(4)
        feeds = c.built.feeds((x, ids, y), 0.02)
        op = c.built.ops["train"].op
        if c.program.data == "pipeline":
            feeds = {}
        if self.what == "no_rows" and c.setup.trains_as_stock(c.program):
            return  # a stock session accepts them, and the mean of nothing is NaN
        errors = (ValueError, TypeError, tf.errors.InvalidArgumentError)
        if self.what == "shape":
            feeds[c.built.x] = np.ones((4, programs.COLUMNS + 1))
        elif self.what == "dtype":
            feeds[c.built.rate] = "fast"
        elif self.what == "no_rows" and c.program.data == "fed":
            feeds = c.built.feeds((x[:0], ids[:0], y[:0]), 0.02)
        else:
            feeds["nobody:0"] = 1.0
        try:
            c.session.run(op, feeds)
        except errors:
            return
        raise AssertionError(f"{self!r} was not refused")


@described
class Fail(Described):
    """Executes a learning run in which the task with the n-th row fails."""

    rows: int = 6
    bad_row: int = 4
    rate: float = 0.02

    def apply(self, c):
        if c.program.data == "pipeline":
            return
        op = c.built.ops["train"]
        if c.program.dropout and len(c.setup.plan(self.rows)) > 1:
            return  # the draws of earlier iterations are not known
        batch = c.draw(self.rows)
        bad = self.bad_row % self.rows
        batch[0][bad, 0] = np.nan
        try:
            c.session.run(op.op, c.built.feeds(batch, self.rate))
        except tf.errors.InvalidArgumentError as error:
            assert "x is not a number" in str(error), error
        else:
            raise AssertionError(f"{self!r} did not fail")
        # Train() fetches dropout's draws, which makes it another kind of run.
        kind = ("train", "nothing" if c.program.dropout else "none")
        c.reference.begin_run(kind, self.rate, op)
        if c.setup.trains_as_stock(c.program):
            c.reference.assign(c.reference.gathered(op.written))
            return
        plan = c.setup.plan(self.rows)
        for number, iteration in enumerate(plan):
            holds = any(rows.start <= bad < rows.stop for rows in iteration.values())
            tasks = {
                j: c.built.feeds([part[rows] for part in batch], self.rate)
                for j, rows in iteration.items()
            }
            if not holds:
                shared = c.setup.shares(iteration)
                c.reference.iteration(op, kind, tasks, rows=shared)
                c.reference.known.samples_seen += sum(r.stop - r.start for r in iteration.values())
                continue
            failing = next(j for j, r in iteration.items() if r.start <= bad < r.stop)
            later = number + 1 < len(plan)
            self._discard(c, op, tasks, failing, unknown=later or c.program.dropout)
            return

    def _discard(self, c, op, tasks, failing, unknown):
        """Checks the values after a discarded iteration.

        "All replicas restart from the z that it began with." "Optimiser slots, counters and other
        untrained state keep what the tasks of the failed iteration did to them": of each value,
        either nothing or all. `unknown`: learners may have started the next iteration.
        """
        reference = c.reference
        before = reference.save()
        after = self._as_if_done(c, op, tasks, failing)
        reference.load(before)
        if c.setup.learners > 1 and reference.averages:
            reference.restart(op.trained)
        for name in op.written:
            reference.known.learned[name] = before.learned[name] | set(tasks)
            reference.known.read.pop(name, None)
        kept = set(op.written) - set(op.trained)
        if reference.kind is tensorbow.Independent:
            kept = set(op.written)  # there is no z to restart from
        for name in sorted(kept):
            for j in reference.learners:
                own = c.session.learner_value(name, j)
                # "With SSGD() all learners get learner 0's."
                of = 0 if reference.kind is tensorbow.SSGD else j
                choices = [before.values[of][name], after[of][name]]
                if not unknown and not any(_near(own, choice) for choice in choices):
                    raise AssertionError(f"{name!r} of learner {j} is {own}, not of {choices}")
                reference.known.values[j][name] = own
                if j == 0 and name in reference.known.z and name in kept:
                    reference.known.z[name] = own

    def _as_if_done(self, c, op, tasks, failing):
        """Returns every learner's values as if all tasks but the failing one had been executed."""
        others = {j: feeds for j, feeds in tasks.items() if j != failing}
        if others:
            c.reference.iteration(op, "discarded", others)
        return c.reference.known.values


def _near(a, b):
    return np.allclose(a, b, rtol=1e-4, atol=1e-6, equal_nan=True)
