"""Layout and trace of a session's learners."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tensorbow._session.layout import as_list, check_number, check_threads_fit, threads_of
from tensorbow.options import Options, cores
from tensorbow.synchronisers import check_learners


def threads_per_learner(native: Any, config: Any) -> int | list[int]:
    """Returns the threads of each learner; a list if the numbers differ on a device."""
    of_session = config.intra_op_parallelism_threads if config else 0
    threads = [own or of_session or cores() for own in native.layout[1]]
    return threads if len(threads) > 1 else int(threads[0])


def set_learners(
    native: Any,
    options: Options,
    learners_per_device: Any,
    threads: int | Sequence[int] | None,
    check_memory: Callable[[int], None],
) -> None:
    """Changes the number of learners, after checking the arguments.

    Args:
      native: the handle of the native session.
      options: of the session.
      learners_per_device, threads: as `TensorBowSession.set_learners` takes them.
      check_memory: raises if memory is short for that many more learners on each device.
    """
    learners = check_number("set_learners", "learners_per_device", learners_per_device)
    if threads is not None:
        threads = threads_of("set_learners", "threads", threads)
        check_threads_fit("set_learners", "threads", threads, learners)
    else:
        given = options.threads_per_learner
        check_threads_fit("set_learners without threads", "Options", given, learners)
    devices = native.num_learners // native.layout[0]
    check_learners(options.synchroniser, learners * devices)
    check_memory(learners - native.layout[0])
    native.set_learners(learners, as_list(threads))


@contextlib.contextmanager
def trace(native: Any, path: str | os.PathLike[str]) -> Iterator[None]:
    """Records events of the learners until the block ends, and writes them to a file."""
    if not native.start_trace():
        raise RuntimeError("trace: the session is being traced already; end that block first")
    try:
        with open(path, "w", encoding="utf-8") as file:
            try:
                yield
            finally:
                file.write(native.stop_trace() or "")
    finally:
        native.stop_trace()  # if there was no file to write to
