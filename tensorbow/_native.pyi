"""The C++ runtime (cc/bindings/native.cc)."""

from collections.abc import Callable

tensorflow_version: str
compiler: str

def deposit_options(
    *,
    learners_per_device: int,
    batch_size: int,
    scheduling: str,
    averaging: bool,
    alpha: float,
    momentum: float | None,
    sync_period: int,
    restart: str | Callable[[int], bool],
    shard: set[str],
    replicate: set[str],
    combine: dict[str, str],
    run_kind: dict[str, str],
    seed: int | None,
    pin_threads: bool,
) -> int: ...
def withdraw_options(number: int) -> None: ...

class SessionHandle:
    def __init__(self, number: int) -> None: ...
    @property
    def num_learners(self) -> int: ...
    @property
    def iterations(self) -> int: ...
    @property
    def learning_tasks(self) -> int: ...
    @property
    def samples_seen(self) -> int: ...
    def restart(self) -> None: ...
    def add_trainable(self, variables: list[str]) -> None: ...
    def add_sparse_feeds(self, tensors: list[str]) -> None: ...
    def take_warnings(self) -> list[str]: ...
    def learner_value(self, variable: str, learner: int) -> bytes: ...
