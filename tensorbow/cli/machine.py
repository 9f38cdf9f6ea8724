"""Facts about the machine: processor, cores, memory, load. No TensorFlow."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time
from collections.abc import Mapping

NO_LIMIT_BYTES = 1 << 60  # control groups of version 1 say "none" by a number above


@dataclasses.dataclass(frozen=True)
class Machine:
    """The resources that a process may use.

    Attributes:
      cpu_flags: what /proc/cpuinfo says the processor can do; empty where it does not say.
      cpus: CPUs of the machine.
      allowed_cpus: those of them in the affinity mask of this process.
      memory_bytes: what can be had without swapping.
      memory_limit_bytes: the least that a control group grants; None without a limit.
      environment: the process's environment variables.
    """

    cpu_flags: frozenset[str]
    cpus: int
    allowed_cpus: int
    memory_bytes: int
    memory_limit_bytes: int | None
    environment: Mapping[str, str]


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _field(text: str, name: str, separator: str = ":") -> list[str]:
    """Returns the words of the first line "name: words"."""
    for line in text.splitlines():
        key, colon, value = line.partition(separator)
        if colon and key.strip() == name:
            return value.split()
    return []


def memory_limit_bytes(root: pathlib.Path) -> int | None:
    """Returns the least that the control group of this process, or a parent, grants."""
    limits = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            mount, file = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            mount, file = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        # The mount itself is the group if this is a container and the path is the host's.
        group = mount / path.lstrip("/")
        for directory in (group, *group.parents):
            if directory.is_relative_to(mount):
                limits.append(_text(directory / file).strip())
    numbers = [int(limit) for limit in limits if limit.isdigit()]  # else "max", or no file
    return min((n for n in numbers if n < NO_LIMIT_BYTES), default=None)


def this_machine(root: pathlib.Path = pathlib.Path("/")) -> Machine:
    """Returns the machine of this process; files are read below `root`."""
    memory = _field(_text(root / "proc/meminfo"), "MemAvailable")
    return Machine(
        cpu_flags=frozenset(_field(_text(root / "proc/cpuinfo"), "flags")),
        cpus=os.cpu_count() or 1,
        allowed_cpus=len(os.sched_getaffinity(0)),
        memory_bytes=int(memory[0]) * 1024 if memory else 0,
        memory_limit_bytes=memory_limit_bytes(root),
        environment=dict(os.environ),
    )


class Load:
    """The cores that other programs use, from the making of this on; files are read below `root`.

    Time that a virtual machine waits for its host counts as used by others.
    """

    def __init__(self, root: pathlib.Path = pathlib.Path("/")) -> None:
        self._root = root
        self._start = self._now()

    def _now(self) -> tuple[float, float, float]:
        """Seconds by the clock, of all processors' work, and of this process's."""
        numbers = [int(word) for word in _field(_text(self._root / "proc/stat"), "cpu", " ")]
        idle = sum(numbers[3:5])  # idle, and waiting for disks
        # Guests' time is in that of users as well.
        ticks = sum(numbers[:8]) - idle
        return time.monotonic(), ticks / os.sysconf("SC_CLK_TCK"), time.process_time()

    def others(self) -> float:
        """Cores that were used by others, on average; 0 where the system does not say."""
        clock, work, own = (now - before for now, before in zip(self._now(), self._start))
        return max(0.0, work - own) / clock if clock > 0 else 0.0
