"""The C++ runtime (cc/bindings/native.cc)."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

tensorflow_version: str
compiler: str

class AdaptiveOptions:
    mega_batch: int
    b_max: int
    b_min: int
    beta: float
    perturbation: float
    threshold: float
    momentum: float
    scaling: bool
    normalisation: bool

class Options:
    learners_per_device: int
    threads_per_learner: list[int]
    tunes_learners: bool
    one_step: bool
    batch_size: int
    element_for_each_learner: bool
    scheduling: str
    algorithm: str
    centre: str
    alpha: float
    momentum: float | None
    sync_period: int
    ema_decay: float
    adaptive: AdaptiveOptions
    restart: str | Callable[[int], bool]
    hosts: Cluster | None
    host_period: int
    host_chunk: int | None
    shard: set[str]
    replicate: set[str]
    combine: Mapping[str, str]
    run_kind: Mapping[str, str]
    proof: bool
    seed: int | None
    pin_threads: bool
    task_recording: str
    reduces_on_host: bool
    collect_warnings: bool

def register_options(options: Options) -> int: ...
def parse_libsvm(
    text: bytes,
    line: int,
    *,
    num_features: int,
    num_labels: int,
    first_feature: int,
    allows_no_labels: bool,
) -> tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]: ...
def type_rows(
    graph: bytes,
    *,
    feeds: list[str],
    fetches: list[str],
    targets: list[str],
    trainable: list[str],
    divided: list[tuple[str, int | None]],
    whole: dict[str, int],
    sparse: list[list[str]],
    gathers: bool = True,
) -> dict[str, Any]: ...
def unregister_options(number: int) -> None: ...
def num_accelerators() -> int: ...
def num_cores() -> int: ...

class HostSum:
    def start(self, values: np.ndarray) -> None: ...
    def wait(self) -> np.ndarray: ...

class Cluster:
    @property
    def size(self) -> int: ...
    @property
    def rank(self) -> int: ...
    def fail(self, why: str) -> None: ...
    def await_told_others(self) -> None: ...
    def new_sum(self, dtype: np.dtype[Any], size: int) -> HostSum: ...

def join_cluster(
    addresses: list[str],
    rank: int,
    start_limit_seconds: float,
    hang_limit_seconds: float,
    elastic: bool = ...,
) -> Cluster: ...

class PreparedRun:
    def run(self, feeds: list[np.ndarray], task_rows: list[int] = ...) -> list[Any] | None: ...
    def explain(self, feeds: list[np.ndarray]) -> dict[str, Any] | None: ...
    @property
    def has_warnings(self) -> bool: ...

class SessionHandle:
    def __init__(self, number: int) -> None: ...
    @property
    def num_learners(self) -> int: ...
    @property
    def layout(self) -> tuple[int, list[int]]: ...
    @property
    def tunes_learners(self) -> bool: ...
    @property
    def tuning(self) -> list[tuple[int, int, float, float, str, bool]]: ...
    @property
    def mega_batches(
        self,
    ) -> list[tuple[list[int], list[float], list[int], list[int], list[float]]]: ...
    def set_learners(self, learners_per_device: int, threads: list[int]) -> None: ...
    def end_tuning(self) -> None: ...
    @property
    def metrics(self) -> dict[str, Any]: ...
    def start_trace(self) -> bool: ...
    def stop_trace(self) -> str | None: ...
    @property
    def learner_devices(self) -> list[str]: ...
    @property
    def iterations(self) -> int: ...
    @property
    def learning_tasks(self) -> int: ...
    @property
    def samples_seen(self) -> int: ...
    @property
    def synchroniser(self) -> str: ...
    def describe_run(
        self, feeds: list[str], fetches: list[str], targets: list[str]
    ) -> dict[str, Any]: ...
    def prepare(
        self,
        *,
        feeds: list[str],
        feed_types: list[int],
        fetches: list[str],
        fetch_types: list[int],
        fetch_arrays: list[np.dtype],
        targets: list[str],
    ) -> PreparedRun | None: ...
    def close(self) -> None: ...
    def restart(self) -> None: ...
    def merge(self) -> None: ...
    def adopt_variable(self, shared_name: str, number: int) -> None: ...
    def add_trainable(self, variables: list[str]) -> None: ...
    def add_sparse_feeds(self, tensors: list[list[str]]) -> None: ...
    def take_warnings(self) -> list[str]: ...
    def central_value(self, variable: str, averaged: bool) -> bytes: ...
    def save_state(self, path: str) -> None: ...
    def load_state(self, path: str) -> None: ...
    def learner_value(self, variable: str, learner: int) -> bytes: ...
