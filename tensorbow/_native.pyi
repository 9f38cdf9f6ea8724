"""The C++ runtime (cc/bindings/native.cc)."""

from collections.abc import Callable
from typing import Any

import numpy as np

tensorflow_version: str
compiler: str

def deposit_options(
    *,
    learners_per_device: int,
    batch_size: int,
    scheduling: str,
    algorithm: str,
    centre: str,
    alpha: float,
    momentum: float | None,
    sync_period: int,
    ema_decay: float,
    restart: str | Callable[[int], bool],
    shard: set[str],
    replicate: set[str],
    combine: dict[str, str],
    run_kind: dict[str, str],
    seed: int | None,
    pin_threads: bool,
    cuda_graphs: str,
) -> int: ...
def withdraw_options(number: int) -> None: ...
def num_accelerators() -> int: ...

class PreparedRun:
    def run(
        self, feeds: list[np.ndarray], task_rows: list[int] | None = None
    ) -> list[Any] | None: ...
    @property
    def has_warnings(self) -> bool: ...

class SessionHandle:
    def __init__(self, number: int) -> None: ...
    @property
    def num_learners(self) -> int: ...
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
    def restart(self) -> None: ...
    def add_trainable(self, variables: list[str]) -> None: ...
    def add_sparse_feeds(self, tensors: list[str]) -> None: ...
    def take_warnings(self) -> list[str]: ...
    def central_value(self, variable: str, averaged: bool) -> bytes: ...
    def save_state(self, path: str) -> None: ...
    def load_state(self, path: str) -> None: ...
    def learner_value(self, variable: str, learner: int) -> bytes: ...
