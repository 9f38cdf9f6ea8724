"""The inner training loop of a replicated model, which replaces its train_function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tensorbow._runtime.messages import warn
from tensorbow.keras import _choice, _feeding
from tensorbow.keras._program import Program
from tensorbow.keras._session import FewerLearnersError, ModelSession
from tensorbow.keras._tracing import CannotTraceError
from tensorbow.options import Options
from tensorbow.synchronisers import Synchroniser


class TrainingLoop:
    """A training loop on learners, on the batches that Keras hands it.

    A model that cannot be trained on learners is trained as stock Keras does from then
    on, until `reset`.

    Args:
      model: a Keras model.
      options: of the session that trains.

    Attributes:
      current: the session in use; None before the first training step.
      program: the training step for the data in use; None before the first one.
    """

    def __init__(self, model: Any, options: Options) -> None:
        self._model = model
        self._options = options
        self.current: ModelSession | None = None
        self.program: Program | None = None
        self._iterator: Any = None  # the one that `program` and `_source` belong to
        self._source: _feeding.Source | None = None
        self._stock_function: Callable[..., Any] | None = None
        self._warned = False
        self._is_alone = False  # `program` is for one learner that the session has chosen
        self._have_learners(options.learners_on(0))

    def _have_learners(self, count: int) -> None:
        """Sets the number of learners of the model's next sessions."""
        self._learners = count
        self._show_learners(count)

    def _follow_tuning(self, session: ModelSession, source: _feeding.Source) -> None:
        """Takes the training step that suits the number of learners."""
        if self._is_alone == (session.session.num_learners == 1):
            return
        alone = session.is_alone
        if alone != self._is_alone:
            self._is_alone = alone
            self.program = session.program_for(source.spec)

    def _show_learners(self, count: int) -> None:
        object.__setattr__(self._model, "num_learners", count)

    def reset(self) -> None:
        """Starts over, as for a model that has just been compiled."""
        self.close()
        self._stock_function = None
        self._have_learners(self._options.learners_on(0))

    def forget_iterator(self) -> None:
        """Forgets the data in use, which are at an end."""
        self._source = None
        self._iterator = None

    def train(self, iterator: Any) -> Any:
        """Trains on the next `steps_per_execution` batches, as the model's train_function."""
        if self._stock_function is not None:
            return self._stock_function(iterator)
        if iterator is not self._iterator:
            try:
                self._begin(iterator)
            except CannotTraceError as error:
                return self._train_stock(iterator, str(error))
        source, session = self._source, self.current
        assert source is not None and session is not None
        logs = None
        for _ in range(self._model.steps_per_execution):
            arrays = source.take()
            if arrays is None:
                break
            if session.tunes:
                self._follow_tuning(session, source)
            assert self.program is not None
            logs = session.run(self.program, arrays)
        if logs is None:
            raise StopIteration
        if session.tunes:
            self._show_learners(session.session.num_learners)
        return logs

    def _begin(self, iterator: Any) -> None:
        """Finds out what an iterator hands out, before anything is taken from it."""
        source: _feeding.Source
        self.forget_iterator()
        if isinstance(iterator, _feeding.ArrayIterator):
            source = iterator
        elif isinstance(iterator, tf.data.Iterator):
            source = _feeding.DatasetSource(iterator)
        else:
            source = _feeding.BatchSource(next(iterator))
        self._source = source
        self.program = self._program_for(source.spec)
        self._iterator = iterator

    def _program_for(self, spec: Any) -> Program:
        """Returns the training step for batches of this spec; makes a session if there is none."""
        source = self._source
        while True:
            try:
                return self._program_on_learners(spec)
            except FewerLearnersError as error:
                warn(f"tensorbow.keras: memory is short, so that fewer learners train. {error}")
                self._have_learners(error.learners)
            # The number of learners is in the traced step: it is traced again, in a new session.
            self.close()
            self._source = source

    def _program_on_learners(self, spec: Any) -> Program:
        if self.current is None:
            synchroniser = _choice.choose(self._options)
            self.current = self._session_with(synchroniser)
        return self.current.program_for(spec)

    def _session_with(self, synchroniser: Synchroniser) -> ModelSession:
        return ModelSession(self._model, self._options, synchroniser, self._learners)

    def _train_stock(self, iterator: Any, reason: str) -> Any:
        """Learners cannot execute the step: from now on the model trains as stock Keras."""
        self.warn_stock(reason)
        if isinstance(self._source, _feeding.BatchSource):
            iterator = iter([self._source.data])
        self.close()
        self._stock_function = self._model._make_function(self._model.train_step)
        return self._stock_function(iterator)

    def warn_stock(self, reason: str) -> None:
        """Warns, once, that the model trains as stock Keras does."""
        if not self._warned:
            graph = None if self.current is None else self.current.session.graph
            warn(
                f"tensorbow.keras: {self._model.name!r} trains as stock Keras does, on one "
                f"replica: {reason}",
                graph=graph,
            )
        self._warned = True

    def close(self) -> None:
        """Ends the session; the variables are Keras's own again."""
        if self.current is not None:
            self.current.close()
        self.current = None
        self.program = None
        self.forget_iterator()
