"""What one asks of a session about its learners: how many there are, and how they fare."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

from tensorflow.python.client.session import BaseSession

from tensorbow._runtime import fork
from tensorbow._session.layout import as_list, check_number, check_threads_fit, threads_of
from tensorbow.adaptive import MegaBatch
from tensorbow.metrics import Metrics, from_native
from tensorbow.options import Options, cores
from tensorbow.synchronisers import check_learners
from tensorbow.tuning import Measurement


class SessionLearners(BaseSession):
    """The part of a session that is about its learners.

    Thread-safe as the native session is. The class that makes the session sets the
    attributes below.
    """

    _options: Options
    _native: Any  # the handle of the native session, or a stand-in

    def _check_memory_of_more(self, learners: int) -> None:
        """Whether there is memory for so many more of them."""
        raise NotImplementedError

    def _check_open(self) -> None:
        if self._closed:
            fork.refuse_closed()

    @property
    def threads_per_learner(self) -> int | list[int]:
        """Threads of each learner; a list where the learners of a device have different numbers.

        A lone learner computes on those of a stock session.
        """
        self._check_open()
        of_session = self._config.intra_op_parallelism_threads if self._config else 0
        threads = [own or of_session or cores() for own in self._native.layout[1]]
        return threads if len(threads) > 1 else int(threads[0])

    def set_learners(
        self, learners_per_device: int, threads: int | Sequence[int] | None = None
    ) -> None:
        """Changes the number of learners and of their threads, between two learning runs.

        The central model is what it was, bit for bit. Where models are averaged all
        replicas begin at it. Learners that stay keep their optimiser slots, statistics
        and random numbers; new ones begin with copies of learner 0's. With one learner
        optimiser slots are the learners' mean. Learning runs are compiled again when they
        come next; one that is under way in another thread is waited for. It
        ends the search for the best number (`Options.learners_per_device`).

        Args:
          learners_per_device: 1 to 1024.
          threads: of each learner, 1 to 1024, or a list with a number for each learner of a
            device; None is as the options say.

        Raises:
          TypeError, ValueError: for an argument that is not one of these, if the
            synchroniser does not work with this number of learners, or if the options have
            the threads of each of another number and threads= does not say them.
          tf.errors.UnimplementedError: for several learners on GPUs with a synchroniser that
            works on the CPU only.
          tf.errors.ResourceExhaustedError: if there is not memory enough for so many learners.

        Example:
          >>> sess.set_learners(4)
        """
        self._check_open()
        learners = check_number("set_learners", "learners_per_device", learners_per_device)
        if threads is not None:
            threads = threads_of("set_learners", "threads", threads)
            check_threads_fit("set_learners", "threads", threads, learners)
        else:
            given = self._options.threads_per_learner
            check_threads_fit("set_learners without threads", "Options", given, learners)
        devices = self._native.num_learners // self._native.layout[0]
        check_learners(self._options.synchroniser, learners * devices)
        self._check_memory_of_more(learners - self._native.layout[0])
        self._native.set_learners(learners, as_list(threads))

    @property
    def tunes_learners(self) -> bool:
        """Whether the number of learners may change by itself; see
        `Options.learners_per_device`."""
        self._check_open()
        return bool(self._native.tunes_learners)

    @property
    def tuning(self) -> list[Measurement]:
        """The numbers of learners that have been tried, in order, each a `Measurement`; empty
        before the first has been measured. See `Options.learners_per_device`."""
        self._check_open()
        return [Measurement(*tried) for tried in self._native.tuning]

    def metrics(self) -> Metrics:
        """How the learners fare: throughput, what they wait for, memory, how far apart they are.

        Waits for the learning run that is under way in another thread. Reads all replicas once.

        Returns:
          A `Metrics`; times are in seconds, memory in bytes. All figures but those of memory
          and spread are 0 before the first learning run.

        Example:
          >>> sess.metrics().samples_per_second
        """
        self._check_open()
        return from_native(self._native.metrics)

    @contextlib.contextmanager
    def trace(self, path: str | os.PathLike[str]) -> Iterator[None]:
        """Records what every learner does, and when, until the block ends.

        The file is in Chrome's trace event format, for https://ui.perfetto.dev or
        chrome://tracing: a lane for the session (runs, compilations, changes of
        the number of learners) and one for each learner (tasks, and inside of these:
        feeding, updates, averages, corrections, waiting for others). Of 4,000,000 events, the
        first ones are kept.

        Args:
          path: of the file; written when the block ends, also by an error.

        Raises:
          TypeError: if `path` is not a path.
          OSError: if the file cannot be written.
          RuntimeError: if the session is being traced already.

        Example:
          >>> with sess.trace("trace.json"):
          ...     for _ in range(100):
          ...         sess.run(train_op, feed_dict=batch())
        """
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"trace: path must be a str or os.PathLike, got {path!r}")
        self._check_open()
        if not self._native.start_trace():
            raise RuntimeError("trace: the session is being traced already; end that block first")
        try:
            with open(path, "w", encoding="utf-8") as file:
                try:
                    yield
                finally:
                    file.write(self._native.stop_trace() or "")
        finally:
            self._native.stop_trace()  # if there was no file to write to

    @property
    def adaptive(self) -> tuple[MegaBatch, ...]:
        """What has become of the last mega-batches, at most 1,000, oldest first; empty
        with any synchroniser but `AdaptiveSGD`."""
        self._check_open()
        return tuple(MegaBatch(*map(tuple, record)) for record in self._native.mega_batches)

    @property
    def learner_devices(self) -> list[str]:
        """What each learner computes on, for people: its CPU, or its GPU with the stream,
        the cuDNN and cuBLAS handles and the allocator that are its own."""
        self._check_open()
        return list(self._native.learner_devices)
