"""Memory that learners need, and memory that this process may still use.

A system without memory kills the process without a message, so sessions ask before they make
learners on the CPU. (GPUs have limits that allocators report.) The needs are lower bounds:
replicas, slots and the central model, without activations and gradients.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from tensorbow.options import Options
from tensorbow.synchronisers import EASGD, SMA, SSGD, Independent, Synchroniser

_VARIABLES = frozenset(["VarHandleOp", "VariableV2", "Variable"])
_READERS = frozenset(
    [
        "DisableCopyOnRead",
        "Identity",
        "IsVariableInitialized",
        "ReadVariableOp",
        "ResourceGather",
        "ResourceGatherNd",
        "VarIsInitializedOp",
        "VariableShape",
    ]
)
_UNLIMITED = 2**60  # version 1 of control groups has such a number
_CENTRAL_BYTES = 4  # of an element of the central model, at least


def size(count: float) -> str:
    """Returns a number of bytes as text, "1.5 MiB"."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"


# ------------------------------------------------------------------ what is there


def available_bytes(root: str = "") -> int | None:
    """Returns the bytes that this process may still use; None if the system does not say.

    Takes the minimum of MemAvailable and the free bytes of the process's control groups, version 1
    or 2. Memory that caches files counts as free.

    Args:
      root: where the file system begins, for tests.
    """
    found = []
    for line in _lines(f"{root}/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            found.append(int(line.split()[1]) * 1024)
    mounts = f"{root}/sys/fs/cgroup"
    # "<number>:<controllers>:<path>"; version 2 has no controllers here.
    for line in _lines(f"{root}/proc/self/cgroup"):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not path.startswith("/"):
            continue
        if not controllers:
            names = ("memory.max", "memory.current", "file")
            found += _left(mounts, path, *names)
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache")
            found += _left(f"{mounts}/memory", path, *names)
    return max(0, min(found)) if found else None


def _lines(path: str) -> list[str]:
    try:
        return pathlib.Path(path).read_text().splitlines()
    except OSError:
        return []


def _left(mount: str, path: str, limit: str, usage: str, cache: str) -> Iterable[int]:
    """Yields the free bytes of a control group and of its parents.

    In a container the path may be the host's; then the mount itself is the group.
    """
    parts = [part for part in path.split("/") if part]
    for depth in range(len(parts) + 1):
        group = "/".join([mount, *parts[:depth]])
        words = [*_lines(f"{group}/{limit}"), *_lines(f"{group}/{usage}")]
        if len(words) != 2 or not all(word.isdigit() for word in words):
            continue  # "max", or no such group
        if int(words[0]) >= _UNLIMITED:
            continue
        statistics = dict(
            line.split() for line in _lines(f"{group}/memory.stat") if len(line.split()) == 2
        )
        prefix = cache.removesuffix("cache") if cache.endswith("cache") else ""
        files = int(statistics.get(cache, 0)) - int(statistics.get(f"{prefix}shmem", 0))
        yield int(words[0]) - int(words[1]) + max(0, files)


# --------------------------------------------------------------------- what is needed


@dataclasses.dataclass(frozen=True)
class Needs:
    """The memory that the learners of a session keep.

    Attributes:
      replica_bytes: of one replica with its slots and other state; 0 where learners share one.
      shared_bytes: of the shared replica, or of the central model, which a lone learner lacks.
      session_bytes: of the session's own variables, if they have no values yet.
    """

    replica_bytes: int
    shared_bytes: int
    session_bytes: int = 0

    def bytes_of(self, learners: int) -> int:
        """Returns the bytes that this number of learners needs."""
        shared = 0 if learners == 1 and self.replica_bytes else self.shared_bytes
        return learners * self.replica_bytes + shared + self.session_bytes

    def learners_that_fit(self, available: int) -> int:
        """Returns how many learners fit into `available` bytes; 0 if none does."""
        left = available - self.shared_bytes - self.session_bytes
        several = max(0, left // max(1, self.replica_bytes))
        return several if several > 1 else int(self.bytes_of(1) <= available)


def variable_bytes(operations: Iterable[Any]) -> int:
    """Returns the size of all variables among these operations of a graph."""
    return sum(_bytes_of(op) for op in operations if op.type in _VARIABLES)


def needs_of(
    operations: Iterable[Any], trainable: Iterable[str], synchroniser: Synchroniser | str
) -> Needs:
    """Returns the memory that learners keep for executing these operations.

    Args:
      operations: fetched or executed; what they compute from is found.
      trainable: names of the operations of trainable variables.
      synchroniser: of the options; "auto" is taken as `SSGD()`, which needs least.
    """
    trainable = set(trainable)
    written = _written(operations)
    everything = sum(map(_bytes_of, written))
    trained = sum(
        _elements(op) * max(_CENTRAL_BYTES, op.get_attr("dtype").size)
        for op in written
        if op.name in trainable
    )
    averages = getattr(synchroniser, "ema_decay", None) is not None
    if synchroniser == "auto" or isinstance(synchroniser, SSGD):
        # Each learner makes a part of every update, in one copy.
        return Needs(0, everything + averages * trained)
    copies = 0 if isinstance(synchroniser, Independent) else 1
    if isinstance(synchroniser, SMA) and synchroniser.centre == "lagging":
        copies = 2
    if isinstance(synchroniser, EASGD):
        copies = 2
    return Needs(everything, (copies + averages) * trained)


def _elements(op: Any) -> int:
    shape = op.get_attr("shape")
    sizes = [dim.size for dim in shape.dim]
    if shape.unknown_rank or any(n < 0 for n in sizes):
        return 0
    count = 1
    for n in sizes:
        count *= n
    return count


def _bytes_of(op: Any) -> int:
    return _elements(op) * int(op.get_attr("dtype").size)


def _written(operations: Iterable[Any]) -> list[Any]:
    """Returns the variables that the operations write, or those that they depend on."""
    seen: set[Any] = set()
    ahead = list(operations)
    variables, written = [], set()
    while ahead:
        op = ahead.pop()
        if op in seen:
            continue
        seen.add(op)
        if op.type in _VARIABLES:
            variables.append(op)
        elif op.type not in _READERS:
            targets = {
                t.op for t in op.inputs if t.dtype._is_ref_dtype or t.dtype.name == "resource"
            }
            written |= {target for target in targets if target.type in _VARIABLES}
        ahead += [tensor.op for tensor in op.inputs]
        ahead += op.control_inputs
    return [op for op in variables if op in written]


# -------------------------------------------------------------------- what to do about it


def may_be_short(variables: int, learners: int, available: int | None) -> bool:
    """Returns true if that many learners of variables of that size, in bytes, might not fit.

    The upper bound: a copy for each learner and one for the session, and a central model of three
    copies in 32 bits of variables that may have 16.
    """
    return available is not None and (learners + 1 + 3 * 2) * variables > available


def learners_to_have(needs: Needs, learners: int, available: int, options: Options) -> int:
    """Returns `learners`, or fewer if memory is short and the user has given no number.

    Raises:
      tf.errors.ResourceExhaustedError: if there is not memory enough.
    """
    if needs.bytes_of(learners) <= available:
        return learners
    fit = min(learners, needs.learners_that_fit(available))
    if isinstance(options.learners_per_device, int) or options.other_hosts or fit < 1:
        raise tf.errors.ResourceExhaustedError(
            None,
            None,
            f"Memory is short for so many learners. {advice(needs, learners, available)}",
        )
    return fit


def advice(needs: Needs, learners: int, available: int) -> str:
    """Returns remedies for too many learners, with the numbers."""
    fit = needs.learners_that_fit(available)
    if needs.replica_bytes == 0:
        parts = (
            f"{size(needs.shared_bytes)} for one copy of the model with its optimiser slots for all"
        )
    else:
        parts = f"{size(needs.replica_bytes)} for each replica with its optimiser slots"
        if learners > 1 and needs.shared_bytes:
            parts += f", {size(needs.shared_bytes)} for the central model"
    if needs.session_bytes:
        parts += f", {size(needs.session_bytes)} for the session's variables"
    if fit > 0:
        text = f"Use Options(learners_per_device={fit}), a smaller model or more memory"
    else:
        text = "Use a smaller model or more memory"
    if learners > 1 and 0 < needs.replica_bytes + needs.session_bytes <= available:
        text += "; learners that average gradients, Options(synchroniser=SSGD()), share one copy"
    return (
        f"{text}. {learners} {'learner needs' if learners == 1 else 'learners need'} "
        f"{size(needs.bytes_of(learners))} beside what there is already ({parts}; activations and "
        f"gradients come on top), and this process may use {size(available)} more."
    )
