"""The stand-in for the native session of a session on a remote server."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class Remote:
    """A native session without learners: a server elsewhere executes the runs."""

    num_learners = 1
    synchroniser = ""
    tunes_learners = False

    def __getattr__(self, name: str) -> Any:
        raise tf.errors.UnimplementedError(
            None,
            None,
            f"This session's runs are executed by a remote server, which knows no {name}; "
            "wanted a local session (an empty target).",
        )

    def end_tuning(self) -> None:
        """Does nothing: nothing is tuned."""

    def add_trainable(self, variables: list[str]) -> None:
        """Does nothing: no run is classified."""

    def prepare(self, **run: Any) -> None:
        """Returns None: no run is for learners."""

    def describe_run(self, **run: Any) -> dict[str, Any]:
        """Returns the facts of a run that learners do not execute."""
        return {"kind": "read"}

    def add_sparse_feeds(self, tensors: list[list[str]]) -> None:
        """Does nothing: no feed is divided."""

    def take_warnings(self) -> list[str]:
        """Returns no warnings: the only one is given at construction."""
        return []
