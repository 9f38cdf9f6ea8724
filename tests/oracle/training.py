"""The action that trains, and the expected results of its run."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import tensorbow
from tests.oracle import programs
from tests.oracle.described import Described, described


def weighted(parts, rows):
    """Returns the mean of learners' values by rows."""
    return np.average(np.asarray(parts, np.float64), axis=0, weights=rows).astype(parts[0].dtype)


@described
class Train(Described):
    """A learning run on fed rows, or on a pipeline's, one element for a task."""

    rows: int = 8
    fetch: str = "none"  # "loss", "rows", "variable", "step"
    rate: float = 0.02
    op: str = "train"  # "late", if the graph has been extended

    def apply(self, c):
        op = c.built.ops.get(self.op)
        if op is None:
            return
        before = {name: c.reference.central(name) for name in ("last", "global_step")}
        if c.program.data == "pipeline":
            self._on_pipeline(c, op, before)
        else:
            self._on_rows(c, op, before)

    @property
    def _kind(self):
        return self.op, self.fetch

    def _fetches(self, c, op):
        fetches = {"op": op.op}
        if self.fetch != "none":
            fetches[self.fetch] = {
                "loss": c.built.loss,
                "rows": c.built.rows,
                "variable": c.built.last,
                "step": c.built.step,
            }[self.fetch]
        if c.program.dropout:
            fetches["noise"] = c.built.noises[0]
        return fetches

    def _of_tasks(self, c):
        """Checks the fetches from the learners' tasks."""
        return getattr(c.built, self.fetch) if self.fetch in ("loss", "rows") else None

    # -------------------------------------------------------------------------- fed rows

    def _on_rows(self, c, op, before):
        together = c.setup.normalises_together(c.program)
        if together and c.program.flow.startswith("cond"):
            return  # learners take different branches, which no stock session does
        batch = c.draw(self.rows)
        feeds = c.built.feeds(batch, self.rate)
        got = c.session.run(self._fetches(c, op), feeds)
        c.reference.begin_run(self._kind, self.rate, op)
        c.reference.known.samples_seen += self.rows
        if c.setup.trains_as_stock(c.program):
            if c.program.dropout:
                feeds[c.built.noises[0]] = got["noise"]
            self._undivided(c, op, feeds, got, before)
            return
        values, sizes = [], []
        for iteration in c.setup.plan(self.rows):
            tasks = {}
            shared = c.setup.shares(iteration)
            for j, rows in iteration.items():
                tasks[j] = c.built.feeds([part[rows] for part in batch], self.rate)
                if c.program.dropout:
                    tasks[j][c.built.noises[0]] = got["noise"][rows]
                sizes.append(rows.stop - rows.start)
            if together:
                # Learners' results on their rows must make one learner's result on all.
                if c.program.dropout:
                    feeds[c.built.noises[0]] = got["noise"]
                tasks, shared, sizes = dict.fromkeys(tasks, feeds), None, [1] * len(tasks)
            values += c.reference.iteration(op, self._kind, tasks, self._of_tasks(c), shared)
            if together:
                values, sizes = values[:1], [1]
        self._compare(c, got, values, sizes, before if c.setup.learners == 1 else {})

    # -------------------------------------------------------------------------- a pipeline

    def _on_pipeline(self, c, op, before):
        stock = c.setup.trains_as_stock(c.program)
        ssgd = c.reference.kind is tensorbow.SSGD
        if ssgd and c.program.norm != "none" and 0 < c.elements_left < c.setup.learners:
            return  # all have the state of one that had the element: nothing shows which one it was
        wanted = min(1 if stock else c.setup.learners, c.elements_left)
        steps = self._steps(c)
        try:
            got = c.session.run(self._fetches(c, op), {c.built.rate: self.rate})
        except tf.errors.OutOfRangeError:
            assert wanted == 0, f"OutOfRange with {c.elements_left} elements left"
            c.reference.begin_run(self._kind, self.rate, op)
            if not stock:
                c.reference.before_tasks(op, c.reference.learners)
                # Learners may have written state; the next read is their mean.
                for name in op.written:
                    c.reference.known.read.pop(name, None)
            return
        assert wanted > 0, "a run without data has to raise OutOfRange"
        c.reference.begin_run(self._kind, self.rate, op)
        c.reference.known.samples_seen += wanted * programs.ELEMENT_ROWS
        tasks = self._tasks(c, steps, stock)
        self._check_elements(c, tasks, wanted)
        if c.program.dropout:
            noise = got["noise"].reshape(len(tasks), programs.ELEMENT_ROWS, -1)
            for feeds, drawn in zip(tasks.values(), noise):
                feeds[c.built.noises[0]] = drawn
        if stock:
            (feeds,) = tasks.values()
            self._undivided(c, op, feeds, got, before)
            return
        values = c.reference.iteration(op, self._kind, tasks, self._of_tasks(c))
        self._compare(c, got, values, [1] * len(tasks), before if c.setup.learners == 1 else {})

    def _steps(self, c):
        """Returns how many tasks each learner has counted."""
        return [c.session.learner_value(c.built.step, j) for j in c.reference.learners]

    def _tasks(self, c, steps, stock):
        """Returns the feeds of the learners that got an element, which their tasks recorded."""
        now, tasks = self._steps(c), {}
        for j in c.reference.learners:
            if now[j] == steps[j] or (stock and j > 0):
                continue
            seen = [
                c.session.learner_value(f"seen_{name}", j).astype(tensor.dtype.as_numpy_dtype)
                for name, tensor in zip(("x", "ids", "y"), (c.built.x, c.built.ids, c.built.y))
            ]
            # Under SSGD a learner without an element is given the state of one that had it.
            copied = any((seen[0] == feeds[c.built.x]).all() for feeds in tasks.values())
            if not (copied and c.reference.kind is tensorbow.SSGD):
                tasks[j] = c.built.feeds(seen, self.rate) | {c.built.ids: seen[1]}
        return tasks

    def _check_elements(self, c, tasks, wanted):
        """Checks that learners received the next elements, each once."""
        assert len(tasks) == wanted, f"learners {list(tasks)} trained, {wanted} elements"
        begin = programs.ELEMENTS - c.elements_left
        data = c.built.batch(0, programs.ELEMENTS * programs.ELEMENT_ROWS)[0]
        elements = data.reshape(programs.ELEMENTS, programs.ELEMENT_ROWS, -1)
        expected = sorted(map(np.ndarray.tolist, elements[begin : begin + wanted]))
        got = sorted(feeds[c.built.x].tolist() for feeds in tasks.values())
        assert got == expected, "learners got other elements than the next ones"
        c.elements_left -= wanted

    # --------------------------------------------------------------------------- fetches

    def _undivided(self, c, op, feeds, got, before):
        """Checks that one learner trains, as a stock session does."""
        value = c.reference.undivided(op, feeds, self._of_tasks(c))
        self._compare(c, got, [value], [1], before)

    def _compare(self, c, got, values, weights, before):
        """Compares. `before`: values before the run, if a stock session might return them."""
        if self.fetch == "loss":
            # "The learners' values are averaged, weighted by rows." In a stock session the
            # weights' norm is read before or after the update.
            if not (before and c.program.loss == "mean_l2"):
                c.close_to(got["loss"], weighted(values, weights), "the fetched loss")
        elif self.fetch == "rows":
            # "By shape and type": rows are concatenated. Elements of a pipeline always have as many
            # rows, so that they do not look like rows. They are averaged, unless the runtime does
            # not know their number, behind a loop.
            if c.program.data == "pipeline" and got["rows"].shape == values[0].shape:
                expected = weighted(values, weights)
            else:
                expected = np.concatenate(values)
            c.close_to(got["rows"], expected, "the fetched rows")
        elif self.fetch != "none":
            # "Fetches of variables are z after the run." A stock session, or one learner, reads
            # them before or after the update.
            name = {"variable": "last", "step": "global_step"}[self.fetch]
            value = got[self.fetch]
            if before and len(weights) > 1:
                return  # one learner: from the last task, before or after its update
            if name not in before or not np.allclose(value, before[name], rtol=1e-6):
                c.close_to(value, c.reference.central(name), f"the fetched {self.fetch}")
