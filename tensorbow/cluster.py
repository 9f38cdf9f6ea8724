"""The hosts that train one model together."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tensorbow import _native
from tensorbow._runtime.checks import is_int, is_one_of
from tensorbow._runtime.messages import suggests_names
from tensorbow.synchronisers import check_period

MAX_CHUNK = 10_000


def _is_address(given: Any) -> bool:
    if not isinstance(given, str):
        return False
    name, _, port = given.rpartition(":")
    return bool(name) and port.isdecimal() and 0 < int(port) < 1 << 16


def _check_chunk(given: Any) -> None:
    if given is None or is_one_of(given, "search"):
        return
    if not is_int(given):
        raise TypeError(f'Cluster: chunk must be an int, "search" or None, got {given!r}')
    if not 1 <= given <= MAX_CHUNK:
        raise ValueError(f"Cluster: chunk must be from 1 to {MAX_CHUNK}, got {given}")


@suggests_names()
@dataclasses.dataclass(frozen=True)
class Cluster:
    """Hosts that train one model together, a process on each.

    All of them run the same program with the same options, each on rows of its own.
    Variables begin with the first host's values, the chief's. The learners of all hosts
    are averaged in every iteration (`SMA()`), or in every `sync_period`-th, over
    TensorFlow's own gRPC servers, while the next iteration computes.

    The server listens on all network addresses of the machine and authenticates nobody:
    for networks whose machines trust each other.

    Args:
      hosts: "name:port" of every host, the chief's first; the same on all hosts.
      rank: which of them this one is, from 0.
      start_limit_seconds: how long to wait until all hosts are there.
      hang_limit_seconds: how long a host may take to answer, 2 or more. After that all
        others fail, with an error that names it.
      sync_period: H, the iterations from one average of all hosts to the next, under
        `SMA()`. After every H-th iteration z is the mean of all hosts' learners, and the
        next iteration's corrections are towards it, with alpha 1 / (number of all
        learners). In between every host trains as if it were alone: z is the mean of its
        own learners, alpha 1 / (their number). An alpha that is given holds for both.
      chunk: gradients that travel to the other hosts together, under `SSGD()`, 1 to 10,000:
        so many that follow each other in back-propagation, and the last two alone, which
        nothing is left to hide. "search" tries numbers while training, ten iterations each,
        and keeps the fastest (CGDP's Algorithm 1, Le et al., ICPE 2018);
        `session.metrics().host_chunk` tells. None: as many as make a million elements,
        which no chunk exceeds in any case.
      elastic: whether the hosts that are left train on when one dies or hangs, with H = 1
        and no search for a chunk: from the last iteration that counts, with the learners
        there are. A run then ends when its iteration counts on all hosts. A host that has
        been lost and is started again rejoins with its first learning run: it has
        the others' model and counts then. See docs/hosts.md.

    Raises:
      TypeError, ValueError: for an argument that is not one of these.

    Example:
      >>> tensorbow.Options(cluster=tensorbow.Cluster(["a:4000", "b:4000"], rank=0))
    """

    hosts: Sequence[str]
    rank: int
    start_limit_seconds: float = 300.0
    hang_limit_seconds: float = 4.0
    sync_period: int = 1
    chunk: int | Literal["search"] | None = None
    elastic: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.hosts, str) or not isinstance(self.hosts, Sequence):
            raise TypeError(f"Cluster: hosts must be a list of addresses, got {self.hosts!r}")
        for host in self.hosts:
            if not _is_address(host):
                raise ValueError(f'Cluster: hosts must be "name:port" each, got {host!r}')
        if not self.hosts or len(set(self.hosts)) < len(self.hosts):
            raise ValueError(
                f"Cluster: hosts must be different and at least one, got {list(self.hosts)}"
            )
        if isinstance(self.rank, bool) or not isinstance(self.rank, int):
            raise TypeError(f"Cluster: rank must be an int, got {self.rank!r}")
        if not 0 <= self.rank < len(self.hosts):
            raise ValueError(f"Cluster: rank must be 0 to {len(self.hosts) - 1}, got {self.rank}")
        for name, least in (("start_limit_seconds", 0), ("hang_limit_seconds", 2)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise TypeError(f"Cluster: {name} must be a number, got {value!r}")
            if not value >= least:
                raise ValueError(f"Cluster: {name} must be at least {least}, got {value}")
        check_period("Cluster", self.sync_period)
        _check_chunk(self.chunk)
        if not isinstance(self.elastic, bool):
            raise TypeError(f"Cluster: elastic must be a bool, got {self.elastic!r}")
        if self.elastic and self.sync_period > 1:
            raise ValueError(
                "Cluster: elastic=True wants the same model on all hosts after every iteration, "
                f"got sync_period={self.sync_period}; leave one of them out"
            )
        object.__setattr__(self, "hosts", tuple(self.hosts))

    @classmethod
    def from_tf_config(
        cls, environment: Mapping[str, str] = os.environ, **settings: Any
    ) -> Cluster | None:
        """Returns the cluster in TF_CONFIG, as TensorFlow reads it; None without it, and if it has
        one task.

        Args:
          environment: where TF_CONFIG is looked up.
          settings: further arguments of `Cluster`.

        Raises:
          ValueError: if TF_CONFIG is not what TensorFlow wants, or has tasks that are
            neither chief nor worker.
        """
        text = environment.get("TF_CONFIG", "")
        if not text.strip():
            return None
        try:
            described = json.loads(text)
            tasks = {kind: list(hosts) for kind, hosts in described.get("cluster", {}).items()}
            task = described.get("task", {})
            kind, index = task.get("type", "worker"), int(task.get("index", 0))
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(
                'TF_CONFIG must be JSON like {"cluster": {"worker": ["a:4000", "b:4000"]}, '
                f'"task": {{"type": "worker", "index": 0}}}}, got {text!r}'
            ) from error
        if list(tasks) == [kind] and len(tasks[kind]) == 1 and index == 0:
            return None  # alone, whatever it is called
        strange = sorted((set(tasks) | {kind}) - {"chief", "worker"})
        if strange:
            raise ValueError(
                f"TF_CONFIG has tasks of the kind {strange[0]!r}; wanted chief and workers, "
                "which train alike: TensorBow has neither parameter servers nor evaluators. "
                "tensorbow.Options(cluster=None) trains on this host alone"
            )
        if not tasks:
            return None
        if not 0 <= index < len(tasks.get(kind, [])):
            raise ValueError(
                f"TF_CONFIG says that this is {kind} {index}, and there are "
                f"{len(tasks.get(kind, []))} of them"
            )
        chiefs = tasks.get("chief", [])
        rank = index if kind == "chief" else len(chiefs) + index
        return cls(chiefs + tasks.get("worker", []), rank, **settings)

    def join(self) -> Any:
        """Becomes a member, once all hosts are there; all sessions of a process share it.

        Does not wait where elastic hosts train already: they take this one back later.

        Raises:
          tf.errors.DeadlineExceededError: if hosts are missing.
          tf.errors.UnavailableError: if the port is taken.
          tf.errors.FailedPreconditionError: if the process is in another cluster.
        """
        return _native.join_cluster(
            list(self.hosts),
            self.rank,
            self.start_limit_seconds,
            self.hang_limit_seconds,
            self.elastic,
        )
