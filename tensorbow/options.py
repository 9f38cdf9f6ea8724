"""Options of a session, as users choose them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from tensorflow.python.framework import config as tf_config
from tensorflow.python.framework.sparse_tensor import SparseTensor

from tensorbow import _native
from tensorbow._runtime.checks import Choice, Elements, Kind, Number, is_one_of
from tensorbow._runtime.messages import count, first_time, suggests_names, warn
from tensorbow._session.layout import MAX_LEARNERS, as_list, layout_options
from tensorbow._session.synchroniser_of_hosts import synchroniser_of_hosts
from tensorbow.adaptive import AdaptiveSGD
from tensorbow.cluster import Cluster
from tensorbow.synchronisers import (
    AUTO,
    EASGD,
    SMA,
    SSGD,
    Independent,
    Synchroniser,
    check_learners,
    native_options,
)

LEARNERS_PER_GPU = 2
MORE_LEARNERS_THAN_CORES = "more learners than cores"  # see messages.first_time
_COMBINATIONS = ("mean", "sum", "concat", "first", "stack")
_RUN_KINDS = ("read", "write", "learning")


def _tensor_name(what: str, element: Any) -> str:
    """Returns the name "node:index" of a tensor given by itself or by name.

    A sparse one is known by its values.
    """
    if isinstance(element, SparseTensor):
        element = element.values
    name = element if isinstance(element, str) else getattr(element, "name", None)
    if not isinstance(name, str) or not name:
        raise TypeError(f"Options: {what} wants tensors or tensor names, got {element!r}")
    return name if ":" in name else f"{name}:0"


def _element_name(what: str, element: Any) -> str:
    name = element if isinstance(element, str) else getattr(element, "name", None)
    if not isinstance(name, str) or not name:
        raise TypeError(
            f"Options: {what} wants operations, tensors or their names, got {element!r}"
        )
    return name


_RULES = {
    "learners_per_device": Number(1, MAX_LEARNERS, or_else=(AUTO, None)),
    "batch_size": Number(1, or_else=(None,)),
    "seed": Number(-(2**62), 2**62, or_else=(None,)),
    "synchroniser": Kind(
        (SMA, EASGD, SSGD, Independent, AdaptiveSGD),
        '"auto", tensorbow.SMA(...), EASGD(...), SSGD(...), AdaptiveSGD(...) or Independent()',
        or_else=AUTO,
    ),
    "scheduling": Choice("fcfs", "round_robin"),
    "gpu_reducer": Choice("auto", "host"),
    "cuda_graphs": Choice("auto", "on", "off"),
    "proof": Choice("auto", "off"),
    "elements": Choice("divided", "one_each", None),
    "pin_threads": Kind((bool,), "a bool"),
    "shard": Elements("a list of feeds"),
    "replicate": Elements("a list of feeds"),
    "combine": Kind((Mapping,), "a dict"),
    "run_kind": Kind((Mapping,), "a dict"),
}
"""The rules for single options; `Options.__post_init__` checks their combinations."""


def cores() -> int:
    """Returns the number of CPU cores this process may use.

    Those of its affinity mask, but no more than its control groups grant the time of: a
    container with `--cpus=2` has two, whatever the machine.
    """
    return int(_native.num_cores())


@suggests_names()
@dataclasses.dataclass(frozen=True)
class Options:
    """The choices for a session; everything has a default.

    Args:
      learners_per_device: learners on one device, 1 to 1024. "auto" finds the best
        number, and the threads of each, by measuring the program's own learning runs:
        one learner on the threads of a stock session is always among what it tries, and
        the fewest learners of those that are as fast as any are settled on. The first
        seconds of training are spent with all of them, and the number of learners is not
        the same every time a program is executed; `session.tuning` tells. On GPUs it adds
        learners, from one on each, as long as one more gains over a tenth. For sessions,
        and for Keras models that average gradients.
        None is "auto", unless something says that the program is to do the same
        every time or means a number of learners: seed=, a seed of the graph
        (`tf.random.set_seed`), op determinism, scheduling="round_robin",
        threads_per_learner=, `Independent()`, `AdaptiveSGD()`, a fetch that is combined by "stack",
        `load_state`. Otherwise, and for Keras models, None is two on every GPU or, without
        one, as many as the CPU cores that this process may use allow, with
        threads_per_learner each.
      threads_per_learner: threads that the kernels of one learner share their work among,
        1 to 1024. None is one, which is best where kernels are short and there are as
        many learners as cores; a lone learner on the CPU computes on the threads that a
        stock session computes on. A list has a number for each learner of a device, and says
        how many there are where learners_per_device does not: with `[2, 1]` there are two,
        and the first one has two threads.
      batch_size: rows of ONE learner's batch. A run that is fed N rows makes
        ceil(N / batch_size) learning tasks; None divides the rows of every run evenly
        among the learners.
      synchroniser: how the learners are kept together: `SMA(...)`, `EASGD(...)`,
        `SSGD(...)`, `AdaptiveSGD(...)`, `Independent()` or "auto". "auto" is `SSGD()`
        where learners compute on the CPU, whatever the optimiser: its step is that of a stock
        session, to rounding. A run that cannot be divided so is executed by one learner, with
        a warning. On GPUs "auto" is `SMA()`. It is chosen at the first learning run and kept;
        `session.synchroniser` tells.
      scheduling: "fcfs" gives the next task to the learner that is free first;
        "round_robin" gives task k to learner k mod L, so that a seeded program computes
        the same bits every time. Under `tf.config.experimental.enable_op_determinism()`
        it is "round_robin" whatever is said here. Without batch_size, shard j always
        belongs to learner j.
      shard: feeds (tensors or names) to divide by rows even where their shape leaves
        doubt. With all feeds that are divided, a run is divided whatever its row types;
        if these are unknown, each learner's rows are a batch of their own.
      replicate: feeds (tensors or names) that every learner gets whole.
      combine: how the learners' values of a fetch (tensor or name) become one value:
        "mean" (weighted by rows), "sum", "concat" (in row order), "first" (learner
        0's) or "stack" (a new leading dimension, one entry for each learning task).
      proof: "auto": every tensor of a run gets a row type from the graph, which says how
        the learners' values make the value of all rows, for all values of feeds and
        variables. Learners exchange what the types ask for. If a type that matters is
        unknown, one learner executes the run, with a warning that names the operation.
        "off": feeds are divided as declared or as their shapes suggest, and nothing but
        gradients is exchanged. See docs/feeds.md.
      elements: what a learning run takes from `tf.data` iterators, queues, staging areas and
        readers. "divided": one element, as a stock session does, whose rows are divided among
        the learners as those of feeds are. "one_each": one element for every learner, so that
        an iteration trains on as many as there are learners. Python functions of feeds and
        elements are called as often: once, or by every learner. None is "one_each" with
        `AdaptiveSGD()`, which takes nothing else, and "divided" otherwise.
      run_kind: "learning", "write" or "read" for runs that fetch an operation or tensor,
        where the classification by the graph is not what is wanted. "learning" averages
        the trainable floating-point variables that the run writes, in whatever way.
      seed: makes random operations that the program left unseeded reproducible inside
        learning runs. Learners draw different numbers in any case. A lone learner
        executes its operations one after the other then.
      pin_threads: whether learners' threads are pinned to cores (as long as there are
        enough).
      cuda_graphs: whether learning tasks on GPUs are captured once as CUDA graphs and
        replayed: "auto" where that is possible, "on" the same with a warning that names
        the operation where it is not, "off" never. Not with a sync_period above 1.
      gpu_reducer: how several GPUs add up their learners' models: "auto" by NCCL, or through
        the host's memory where it does not load; "host" through the host's memory.
      cluster: the hosts that train together, a `Cluster`; "auto" for those in TF_CONFIG,
        if it is set; None for this host alone. On the CPU, with `SMA()`, `EASGD()`,
        `SSGD()` or `AdaptiveSGD()`; without set_learners and explain. With a sync_period of
        the cluster, and on elastic hosts with `elements="one_each"`, "auto" is `SMA()`. See
        docs/hosts.md.

    Raises:
      TypeError, ValueError: for an argument that is not one of these.

    Example:
      >>> tensorbow.Options(learners_per_device=2, batch_size=16)
    """

    learners_per_device: int | Literal["auto"] | None = None
    threads_per_learner: int | Sequence[int] | None = None
    batch_size: int | None = None
    synchroniser: Synchroniser | Literal["auto"] = AUTO
    scheduling: Literal["fcfs", "round_robin"] = "fcfs"
    shard: Iterable[Any] = ()
    replicate: Iterable[Any] = ()
    combine: Mapping[Any, str] = dataclasses.field(default_factory=dict)
    proof: Literal["auto", "off"] = "auto"
    elements: Literal["divided", "one_each"] | None = None
    run_kind: Mapping[Any, str] = dataclasses.field(default_factory=dict)
    seed: int | None = None
    pin_threads: bool = True
    cuda_graphs: Literal["auto", "on", "off"] = "auto"
    gpu_reducer: Literal["auto", "host"] = "auto"
    cluster: Cluster | Literal["auto"] | None = AUTO

    def __post_init__(self) -> None:
        for name, rule in _RULES.items():
            rule.check("Options", name, getattr(self, name))
        if self.tunes_learners and self.threads_per_learner is not None:
            raise ValueError(
                'Options: learners_per_device="auto" finds the threads of each learner too; '
                f"got threads_per_learner={self.threads_per_learner}"
            )
        threads, learners = layout_options(self.threads_per_learner, self.learners_per_device)
        object.__setattr__(self, "threads_per_learner", threads)
        object.__setattr__(self, "learners_per_device", learners)
        if isinstance(self.synchroniser, AdaptiveSGD) and self.elements == "divided":
            raise ValueError(
                "Options: learners take elements of their own with AdaptiveSGD; got "
                'elements="divided", wanted "one_each" or None'
            )
        if isinstance(self.synchroniser, AdaptiveSGD) and self.batch_size is not None:
            raise ValueError(
                f"Options: AdaptiveSGD chooses the rows of each learner's batch; give b_max= to "
                f"it, got batch_size={self.batch_size}"
            )
        if isinstance(self.synchroniser, AdaptiveSGD) and self.tunes_learners:
            raise ValueError(
                'Options: learners_per_device="auto" is for learners of the same speed; give '
                "AdaptiveSGD a number of them"
            )
        self._check_cluster()
        for name in ("shard", "replicate"):
            names = tuple(_tensor_name(name, element) for element in getattr(self, name))
            object.__setattr__(self, name, names)
        both = set(self.shard) & set(self.replicate)
        if both:
            raise ValueError(
                f"Options: {sorted(both)} are in shard and in replicate; a feed is "
                "either divided or given whole"
            )
        for name, choices, naming in (
            ("combine", _COMBINATIONS, _tensor_name),
            ("run_kind", _RUN_KINDS, _element_name),
        ):
            given = getattr(self, name)
            for element, choice in given.items():
                if not is_one_of(choice, *choices):
                    raise ValueError(
                        f"Options: {name}[{_element_name(name, element)!r}] must be one of "
                        f"{', '.join(choices)}, got {choice!r}"
                    )
            object.__setattr__(self, name, {naming(name, e): c for e, c in given.items()})

    def _check_cluster(self) -> None:
        origin = ""
        if is_one_of(self.cluster, AUTO):
            object.__setattr__(self, "cluster", Cluster.from_tf_config())
            origin = ". TF_CONFIG describes a cluster; cluster=None trains on this host alone"
        if self.cluster is None:
            return
        if not isinstance(self.cluster, Cluster):
            raise TypeError(
                f'Options: cluster must be a tensorbow.Cluster, "auto" or None, got '
                f"{self.cluster!r}"
            )
        if self.tunes_learners:
            raise ValueError(
                'Options: learners_per_device="auto" is for one host; with a cluster give a '
                f"number, the same on every host{origin}"
            )
        chosen = synchroniser_of_hosts(
            self.cluster, self.synchroniser, self.batch_size, self.elements, origin
        )
        object.__setattr__(self, "synchroniser", chosen)

    @property
    def host_period(self) -> int:
        """Iterations from one average of all hosts to the next."""
        return 1 if self.other_hosts is None else self.other_hosts.sync_period

    @property
    def host_chunk(self) -> int | None:
        """Gradients that travel together; 0: as many as fit, None: they are searched."""
        chunk = None if self.other_hosts is None else self.other_hosts.chunk
        return None if chunk == "search" else chunk or 0

    @property
    def other_hosts(self) -> Cluster | None:
        """The cluster, if it has more than this host."""
        if isinstance(self.cluster, Cluster) and len(self.cluster.hosts) > 1:
            return self.cluster
        return None

    @property
    def tunes_learners(self) -> bool:
        """True if the options ask to find the number of learners by measuring."""
        return is_one_of(self.learners_per_device, "auto")

    @property
    def may_tune_learners(self) -> bool:
        """True if the number of learners may be found by measuring."""
        return self.tunes_learners or (
            self.learners_per_device is None
            and self.threads_per_learner is None
            and self.other_hosts is None
            and self.seed is None
            and self.scheduling == "fcfs"
            and not isinstance(self.synchroniser, (AdaptiveSGD, Independent))
            and "stack" not in self.combine.values()
            and not tf_config.is_op_determinism_enabled()
        )

    @property
    def num_learners(self) -> int:
        """Learners of a session with these options on this machine; to begin with, if
        their number is found by measuring."""
        return self.learners_on(_native.num_accelerators())

    def learners_on(self, gpus: int) -> int:
        """Returns the number of learners of a session that uses `gpus` GPUs; 0 is the CPU."""
        if isinstance(self.learners_per_device, int):
            return max(1, gpus) * self.learners_per_device
        if gpus == 0:
            return max(1, cores() // max([1, *as_list(self.threads_per_learner)]))
        return gpus * LEARNERS_PER_GPU

    def check_learners(self, gpus: int) -> None:
        """Raises ValueError if the synchroniser is unstable with the learners of all hosts."""
        hosts = 1 if self.other_hosts is None else len(self.other_hosts.hosts)
        check_learners(self.synchroniser, self.learners_on(gpus) * hosts)

    def _remark_on_cores(self) -> None:
        """Warns, once a process, if the user wants more learners than there are cores."""
        learners, threads = self.learners_per_device, as_list(self.threads_per_learner) or [1]
        if not isinstance(learners, int):
            return
        wanted = sum(threads) if len(threads) > 1 else learners * threads[0]
        if wanted > cores() and first_time(MORE_LEARNERS_THAN_CORES):
            warn(
                "There are more learners than cores, which take turns and train no faster. Leave "
                f"learners_per_device out for the best number; got {count(learners, 'learner')} "
                f"of {'different' if len(threads) > 1 else threads[0]} "
                f"{'thread' if threads == [1] else 'threads'}, and {count(cores(), 'core')}."
            )

    def deposit(self, gpus: int | None = None, seeded: bool = False, one_step: bool = False) -> int:
        """Hands the options to the native runtime; returns their number.

        Args:
          gpus: that the session will use; None is all there are.
          seeded: whether the graph has a seed.
          one_step: whether runs that train the same variables are traces of one step.

        Raises:
          ValueError: if the synchroniser does not work with this number of learners, or
            their number cannot be found on this device.
        """
        gpus = _native.num_accelerators() if gpus is None else gpus
        if self.other_hosts is not None and gpus > 0:
            raise ValueError(
                "Options: a cluster's learners compute on the CPU, and this session would use "
                'GPUs; hide them from it by ConfigProto(device_count={"GPU": 0})'
            )
        self.check_learners(gpus)
        deterministic = tf_config.is_op_determinism_enabled()
        tunes = self.tunes_learners or (self.may_tune_learners and not seeded)
        first = 1 if tunes and gpus > 0 else self.learners_on(gpus) // max(1, gpus)
        if gpus == 0:
            self._remark_on_cores()
        native = _native.Options()
        native.learners_per_device = first
        native.threads_per_learner = as_list(self.threads_per_learner)
        native.tunes_learners = tunes
        native.one_step = one_step
        native.batch_size = self.batch_size or 0
        native.scheduling = "round_robin" if deterministic else self.scheduling
        for name, value in native_options(self.synchroniser).items():
            setattr(native, name, value)
        native.shard = set(self.shard)
        native.replicate = set(self.replicate)
        native.combine = self.combine
        native.run_kind = self.run_kind
        native.seed = self.seed
        native.pin_threads = self.pin_threads
        native.task_recording = self.cuda_graphs
        native.reduces_on_host = self.gpu_reducer == "host"
        native.proof = self.proof == "auto"
        native.element_for_each_learner = self.elements == "one_each"
        native.hosts = None if self.other_hosts is None else self.other_hosts.join()
        native.host_period = self.host_period
        native.host_chunk = self.host_chunk
        native.collect_warnings = True
        return _native.register_options(native)
