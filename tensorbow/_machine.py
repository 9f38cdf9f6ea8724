"""What `tensorbow doctor` reads of the machine: processor, cores, memory. No TensorFlow."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping

NO_LIMIT_BYTES = 1 << 60  # control groups of version 1 say "none" by a number above


@dataclasses.dataclass(frozen=True)
class Machine:
    """What a process may use.

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


def _field(text: str, name: str) -> list[str]:
    """The words of the first line "name: words"."""
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip() == name:
            return value.split()
    return []


def memory_limit_bytes(root: pathlib.Path) -> int | None:
    """The least that the control group of this process, or one it lies in, grants."""
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
        # In a container the path may be the host's: the mount itself is the group then.
        group = mount / path.lstrip("/")
        for directory in (group, *group.parents):
            if directory.is_relative_to(mount):
                limits.append(_text(directory / file).strip())
    numbers = [int(limit) for limit in limits if limit.isdigit()]  # else "max", or no file
    return min((n for n in numbers if n < NO_LIMIT_BYTES), default=None)


def this_machine(root: pathlib.Path = pathlib.Path("/")) -> Machine:
    """What this process runs on; the files are read below `root`."""
    memory = _field(_text(root / "proc/meminfo"), "MemAvailable")
    return Machine(
        cpu_flags=frozenset(_field(_text(root / "proc/cpuinfo"), "flags")),
        cpus=os.cpu_count() or 1,
        allowed_cpus=len(os.sched_getaffinity(0)),
        memory_bytes=int(memory[0]) * 1024 if memory else 0,
        memory_limit_bytes=memory_limit_bytes(root),
        environment=dict(os.environ),
    )
