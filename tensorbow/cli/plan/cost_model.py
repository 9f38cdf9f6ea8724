"""Times of iterations on several hosts, predicted from those of their parts on one.

A learning task is a forward pass, layers of back-propagation from the last to the first, and
the updates. A sum over the hosts takes time on the network, which may hide behind computation,
and work of cores, which the learners lack if all cores are busy.
Times are seconds, sizes bytes. Needs neither TensorFlow nor the native runtime.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

CHUNK_BYTES = 4 << 20  # the size of a chunk (HostAverage, HostGradients)
AT_ONCE_BYTES = 256 << 10  # that a host offers in one step (TensorExchange)
_LINE = 64  # bytes; the parts of a ring begin at multiples


@dataclasses.dataclass(frozen=True)
class Layer:
    """A step of back-propagation, after which its variables are updated."""

    name: str
    seconds: float
    size_bytes: int


@dataclasses.dataclass(frozen=True)
class Task:
    """A learning task.

    Attributes:
      forward: the forward pass, the loss and its gradient.
      layers: from the last layer to the first, in which order they are done.
      rest: after the last update.
    """

    forward: float
    layers: tuple[Layer, ...]
    rest: float = 0.0

    @property
    def seconds(self) -> float:
        return self.forward + sum(layer.seconds for layer in self.layers) + self.rest

    @property
    def size_bytes(self) -> int:
        """The size of all variables that are averaged."""
        return sum(layer.size_bytes for layer in self.layers)

    def scaled_to(self, seconds: float) -> Task:
        """Returns the same task, scaled to take `seconds`."""
        factor = seconds / self.seconds
        layers = [dataclasses.replace(a, seconds=a.seconds * factor) for a in self.layers]
        return Task(self.forward * factor, tuple(layers), self.rest * factor)


@dataclasses.dataclass(frozen=True)
class Host:
    """The learners and cores of every host.

    Attributes:
      learners: replicas; each executes one task in an iteration, all at the same time.
      cores: that compute; all of them are busy while the learners are at work.
      memory: bytes per second that one core reads and writes.
    """

    learners: int
    cores: float
    memory: float


@dataclasses.dataclass(frozen=True)
class Network:
    """The network between hosts.

    Attributes:
      latency: of one message from a host to the next.
      bandwidth: bytes per second of a host, in each direction.
    """

    latency: float = 0.0
    bandwidth: float = math.inf


@dataclasses.dataclass(frozen=True)
class SumCosts:
    """The costs of software in a sum, beside the network.

    In a step a host sends messages to others and gets as many; bytes are those that it sends.

    Attributes:
      step: time of a step of one message, on idle hosts that are next to each other.
      byte: time of every byte.
      step_work: CPU time of a message that is sent and one that is received, on each host.
      byte_work: CPU time of every byte.
      interruption: CPU time that an iteration loses when sums run beside its computation:
        threads take turns, and find caches cold.
    """

    step: float
    byte: float
    step_work: float
    byte_work: float
    interruption: float = 0.0


@dataclasses.dataclass(frozen=True)
class Exchange:
    """A sum of TensorBow's (cc/cluster/tensor_exchange). Two hosts exchange everything, as do
    more hosts for short vectors; else each adds up a part for all others."""

    hosts: int

    def steps(self, size_bytes: float) -> int:
        """Returns the number of steps, one after the other."""
        at_once = self.hosts == 2 or size_bytes * (self.hosts - 1) <= AT_ONCE_BYTES
        return 1 if at_once else 2

    def messages(self, size_bytes: float) -> float:
        """Returns the number of messages from each host, on average."""
        return self.steps(size_bytes) * (self.hosts - 1)

    def sent_bytes(self, size_bytes: float) -> float:
        """Returns the bytes that each host sends."""
        if self.steps(size_bytes) == 1:
            return (self.hosts - 1) * size_bytes
        return 2 * (self.hosts - 1) / self.hosts * size_bytes


@dataclasses.dataclass(frozen=True)
class Ring:
    """TensorFlow's ring: each of as many parts as hosts goes round twice. The first round adds
    it up, the second hands it on."""

    hosts: int

    def steps(self, size_bytes: float) -> int:
        del size_bytes
        return 2 * (self.hosts - 1)

    def messages(self, size_bytes: float) -> float:
        """Returns the number of messages from each host. Parts end at multiples of a cache line,
        so that short vectors have fewer parts."""
        part = (math.ceil(size_bytes / self.hosts) // _LINE + 1) * _LINE
        return self.steps(size_bytes) * math.ceil(size_bytes / part) / self.hosts

    def sent_bytes(self, size_bytes: float) -> float:
        return 2 * (self.hosts - 1) / self.hosts * size_bytes


@dataclasses.dataclass(frozen=True)
class Hierarchy:
    """Exchanges in groups of `group` hosts, and between hosts of the same place in their groups.

    Each group adds up, so that every member has the sum of a part; the members of a place sum
    their part over the groups; each group hands its parts on. Sends as many bytes as one
    exchange in fewer messages.
    """

    hosts: int
    group: int

    def __post_init__(self) -> None:
        if self.hosts % self.group:
            raise ValueError(f"{self.hosts} hosts are not groups of {self.group} each")

    @property
    def _across(self) -> Exchange:
        return Exchange(self.hosts // self.group)

    def steps(self, size_bytes: float) -> int:
        return 2 + self._across.steps(size_bytes / self.group)

    def messages(self, size_bytes: float) -> float:
        return 2 * (self.group - 1) + self._across.messages(size_bytes / self.group)

    def sent_bytes(self, size_bytes: float) -> float:
        inside = 2 * (self.group - 1) / self.group * size_bytes
        return inside + self._across.sent_bytes(size_bytes / self.group)


Topology = Exchange | Ring | Hierarchy


def squarest(hosts: int) -> Hierarchy:
    """Returns the hierarchy with the fewest messages for long vectors."""
    groups = [g for g in range(1, hosts + 1) if hosts % g == 0]
    return min((Hierarchy(hosts, g) for g in groups), key=lambda h: h.messages(1e12))


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Equal hosts, and the network between them."""

    host: Host
    topology: Topology
    network: Network
    costs: SumCosts

    @property
    def report_bytes(self) -> int:
        """The size of the report of an iteration: five integers of each host."""
        return 40 * self.topology.hosts

    @property
    def report_work(self) -> float:
        """CPU time on each host of an iteration in which nothing else is summed up."""
        return self.sum_work(self.report_bytes) + self.costs.interruption

    def latency(self, size_bytes: float) -> float:
        """Returns the part of a sum's time that does not depend on bandwidth."""
        steps = self.topology.steps(size_bytes)
        # Messages of a step are made one after the other.
        more = max(0.0, self.topology.messages(size_bytes) - steps) * self.costs.step_work
        return steps * (self.network.latency + self.costs.step) + more

    def bytes_seconds(self, size_bytes: float) -> float:
        """Returns the part of a sum's time that its bytes take."""
        byte = max(1 / self.network.bandwidth, self.costs.byte)
        return self.topology.sent_bytes(size_bytes) * byte

    def sum_seconds(self, size_bytes: float) -> float:
        """Returns the time of a sum on hosts that do nothing else."""
        return self.latency(size_bytes) + self.bytes_seconds(size_bytes)

    def sum_work(self, size_bytes: float) -> float:
        """Returns the CPU time of a sum on each host."""
        sent = self.topology.sent_bytes(size_bytes)
        messages = self.topology.messages(size_bytes)
        return messages * self.costs.step_work + sent * self.costs.byte_work


def in_chunks(size_bytes: float) -> list[float]:
    """Returns the sizes of the chunks in which a model travels."""
    whole, rest = divmod(size_bytes, CHUNK_BYTES)
    return [float(CHUNK_BYTES)] * int(whole) + ([rest] if rest else [])


@dataclasses.dataclass(frozen=True)
class Prediction:
    """An iteration of all hosts.

    Attributes:
      seconds: from its beginning to that of the next.
      work: the part in which sums use the cores.
      waiting: the part in which learners wait for the network.
    """

    seconds: float
    work: float
    waiting: float


def _busy(task: Task, work: float, awaited: float) -> Prediction:
    """Returns an iteration that may wait, at its first update, for the sum of the iteration
    before."""
    waiting = max(0.0, awaited - task.forward - work)
    return Prediction(task.seconds + work + waiting, work, waiting)


def averaged_models(task: Task, cluster: Cluster, period: int = 1) -> Prediction:
    """Returns an iteration under `SMA()`, the mean of `period` of them.

    In one of them hosts average: what their replicas add up to travels while the forward pass
    of the next iteration computes, and is awaited at its first update. A report on every
    iteration is awaited there, too.
    """
    if cluster.topology.hosts == 1:
        return Prediction(task.seconds, 0.0, 0.0)
    host, size, report = cluster.host, task.size_bytes, cluster.report_bytes
    # Arrays that the average of hosts reads and writes beside a host's own average: the sum. One
    # learner has no average of its own: replica and z come on top.
    arrays = 2 if host.learners > 1 else 5
    chunks = sum(map(cluster.sum_work, in_chunks(size)))
    work = cluster.report_work / host.cores
    alone = _busy(task, work, cluster.sum_seconds(report))
    work += chunks / host.cores + arrays * size / host.memory
    together = _busy(task, work, cluster.sum_seconds(size))
    return Prediction(
        *(
            a + (b - a) / period
            for a, b in zip(dataclasses.astuple(alone), dataclasses.astuple(together))
        )
    )


def averaged_gradients(task: Task, cluster: Cluster) -> Prediction:
    """Returns an iteration under `SSGD()`.

    Gradients leave in chunks, as soon as back-propagation has filled one. A chunk is under way
    for its time on the network, after those before it (where it has that for itself, this is
    `chunked_seconds`). Hosts vote when all gradients have left, and update when the last has
    come.
    """
    if cluster.topology.hosts == 1:
        return Prediction(task.seconds, 0.0, 0.0)
    host, size, report = cluster.host, task.size_bytes, cluster.report_bytes
    now, sent, left, free = task.forward, 0.0, 0.0, 0.0
    for layer in task.layers:
        now += layer.seconds + 2 * layer.size_bytes / host.memory  # added up over learners
        sent += layer.size_bytes
        while sent - left >= CHUNK_BYTES:
            free = max(free, now) + cluster.bytes_seconds(CHUNK_BYTES)
            left += CHUNK_BYTES
    free = max(free, now) + cluster.bytes_seconds(sent - left)
    latency = cluster.latency(min(size, CHUNK_BYTES))
    chunks = sum(map(cluster.sum_work, in_chunks(size)))
    work = (chunks + cluster.report_work) / host.cores
    arrived = max(now + work, free + latency, now + cluster.sum_seconds(report))
    mean = 2 * size / host.memory
    seconds = arrived + mean + task.rest
    own = now - task.forward - sum(layer.seconds for layer in task.layers) + mean
    return Prediction(seconds, work + own, seconds - task.seconds - work - own)


def chunked_seconds(
    back_propagation: Sequence[float],
    synchronisation: Sequence[float],
    accumulation: Sequence[float],
    broadcast: Sequence[float],
) -> float:
    """Returns the seconds of back-propagation with reductions in the background (Le et al., ICPE
    2018).

    Args, by chunk in the order of back-propagation: its computation, handing it over, and adding
    it up and handing the sum on, which run meanwhile::

        T = max_i ( sum_{j <= i} (t_bp_j + t_as_j) + t_aa_i + t_bc_i )
    """
    done, latest = 0.0, 0.0
    for bp, handed, aa, bc in zip(
        back_propagation, synchronisation, accumulation, broadcast, strict=True
    ):
        done += bp + handed
        latest = max(latest, done + aa + bc)
    return latest


def plain_seconds(
    back_propagation: Sequence[float], accumulation: Sequence[float], broadcast: Sequence[float]
) -> float:
    """Returns the seconds of back-propagation with reductions after it: T' = T_BP + sum_i
    (t_aa_i + t_bc_i)."""
    return sum(back_propagation) + sum(accumulation) + sum(broadcast)


def plain_data_parallel(task: Task, cluster: Cluster) -> Prediction:
    """Returns an iteration that sums up all gradients at the end, and then updates."""
    if cluster.topology.hosts == 1:
        return Prediction(task.seconds, 0.0, 0.0)
    chunks = in_chunks(task.size_bytes)
    half = [cluster.sum_seconds(chunk) / 2 for chunk in chunks]
    layers = [layer.seconds for layer in task.layers]
    seconds = task.forward + plain_seconds(layers, half, half) + task.rest
    return Prediction(seconds, 0.0, seconds - task.seconds)
