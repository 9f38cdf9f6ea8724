"""The setup of a session, and its consequences by the documentation."""

from __future__ import annotations

from typing import Any

import tensorbow
from tests.oracle import programs
from tests.oracle.described import Described, described


@described
class Setup(Described):
    """Learners and their synchroniser; tasks of `batch_size` rows go round robin."""

    learners: int = 2
    synchroniser: Any = tensorbow.SMA()
    batch_size: int | None = None

    def options(self, built):
        """The session's options."""
        combine = {}
        if built.program.dropout:
            combine[built.noises[0]] = "concat"
        return tensorbow.Options(
            learners_per_device=self.learners,
            synchroniser=self.synchroniser,
            batch_size=self.batch_size,
            scheduling="round_robin" if self.batch_size else "fcfs",
            combine=combine,
            # The oracle counts elements by learner; tests/python/elements_test.py divides them.
            elements="one_each",
        )

    def plan(self, rows):
        """Returns the iterations of a run of `rows` rows, each with the rows of every learner in
        it."""
        if self.batch_size is None:
            size, longer = divmod(rows, self.learners)
            ends = [j * size + min(j, longer) for j in range(self.learners + 1)]
            shards = [slice(a, b) for a, b in zip(ends, ends[1:])]
            return [{j: shard for j, shard in enumerate(shards) if shard.start < shard.stop}]
        b, learners = self.batch_size, self.learners
        tasks = [slice(k, min(k + b, rows)) for k in range(0, rows, b)]
        return [dict(enumerate(tasks[i : i + learners])) for i in range(0, len(tasks), learners)]

    def shares(self, iteration):
        """Returns the rows of each learner, the weights of gradients; None if these are equal."""
        if self.batch_size is not None:
            return None
        return [iteration[j].stop - iteration[j].start for j in sorted(iteration)]

    def chosen(self, program):
        """Returns the synchroniser that "auto" chooses for a program."""
        return tensorbow.SSGD() if self.synchroniser == "auto" else self.synchroniser

    @staticmethod
    def _hides_gradients(program):
        """Returns whether the gradient is hidden: by hand, only a dependence on feeds shows it."""
        return program.optimiser in programs.BY_HAND and program.data != "fed"

    def trains_as_stock(self, program):
        """Returns whether one learner executes a run, as a stock session would."""
        ssgd = isinstance(self.chosen(program), tensorbow.SSGD)
        return self.learners > 1 and ssgd and self._hides_gradients(program)

    def normalises_together(self, program):
        """Returns whether learners normalise by the moments of all rows of a run."""
        shares_rows = self.batch_size is None and program.data == "fed"
        ssgd = isinstance(self.chosen(program), tensorbow.SSGD)
        return program.norm != "none" and self.learners > 1 and ssgd and shares_rows

    def momentum(self, program):
        """Returns the momentum of a lagging centre."""
        chosen = self.chosen(program)
        if getattr(chosen, "centre", "") != "lagging":
            return 0.0
        if chosen.momentum in (None, "auto"):
            return 0.9 if program.optimiser in ("gd", "hand") else 0.0
        return chosen.momentum
