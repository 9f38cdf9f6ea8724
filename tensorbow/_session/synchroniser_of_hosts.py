"""Combinations of synchronisers and clusters that Options accept."""

from __future__ import annotations

from typing import Literal

from tensorbow._runtime.checks import is_one_of
from tensorbow.adaptive import AdaptiveSGD
from tensorbow.cluster import Cluster
from tensorbow.synchronisers import AUTO, EASGD, SMA, SSGD, Synchroniser


def synchroniser_of_hosts(
    cluster: Cluster,
    given: Synchroniser | Literal["auto"],
    batch_size: int | None,
    elements: str | None,
    origin: str,
) -> Synchroniser | Literal["auto"]:
    """Returns the synchroniser to use with a cluster: `given`, or the one that "auto" means.

    Raises:
      ValueError: if they do not go together; `origin` says where the cluster comes from.
    """
    if not is_one_of(given, AUTO) and not (
        isinstance(given, (SMA, EASGD, AdaptiveSGD))
        or (isinstance(given, SSGD) and given.ema_decay is None)
    ):
        raise ValueError(
            "Options: with a cluster the synchroniser must be SMA(), EASGD(), SSGD() without "
            f"ema_decay or AdaptiveSGD(), got {given!r}{origin}"
        )
    if isinstance(given, AdaptiveSGD) and len(cluster.hosts) > 1:
        _check_adaptive(cluster, given)
    # Gradients are averaged in every iteration. Elastic hosts that average them have to know the
    # rows of a run before they execute it.
    one_each = elements == "one_each"
    averages_models = cluster.sync_period > 1 or (cluster.elastic and one_each)
    chosen = SMA() if is_one_of(given, AUTO) and averages_models else given
    if cluster.sync_period > 1:
        _check_rare_averages(cluster.sync_period, chosen)
    if cluster.elastic:
        _check_elastic(chosen, batch_size, one_each, cluster.chunk)
    if cluster.chunk is not None and not (isinstance(chosen, SSGD) or is_one_of(chosen, AUTO)):
        raise ValueError(
            f"Options: Cluster(chunk={cluster.chunk!r}) is about gradients, and {chosen!r} "
            "averages models; use SSGD(), or leave chunk out"
        )
    return chosen


def _check_rare_averages(period: int, chosen: object) -> None:
    if isinstance(chosen, SSGD):
        raise ValueError(
            f"Options: Cluster(sync_period={period}) averages models, and SSGD() averages the "
            "gradients of all hosts in every iteration; use SMA(), or leave sync_period out"
        )
    if isinstance(chosen, EASGD) or (isinstance(chosen, SMA) and chosen.centre == "lagging"):
        raise ValueError(
            f"Options: Cluster(sync_period={period}) averages a host's own learners in between, "
            f"which the lagging centre of {chosen!r} does not do; give sync_period to EASGD or "
            "SMA instead, which then corrects the learners of all hosts in every so many "
            "iterations, or use SMA() with the current centre"
        )
    if isinstance(chosen, SMA) and chosen.sync_period > 1:
        raise ValueError(
            f"Options: got Cluster(sync_period={period}) and "
            f"SMA(sync_period={chosen.sync_period}); the learners of a host are averaged in every "
            "iteration where hosts are averaged less often: leave one of them out"
        )


def _check_adaptive(cluster: Cluster, given: AdaptiveSGD) -> None:
    if given.b_max is None:
        raise ValueError(
            "Options: AdaptiveSGD() on several hosts wants a b_max, the rows with which the "
            "batches of all hosts begin: hosts may be fed different numbers of rows"
        )
    if given.mega_batch is not None and given.mega_batch < len(cluster.hosts):
        raise ValueError(
            f"Options: a mega-batch is shared out among {len(cluster.hosts)} hosts; got "
            f"AdaptiveSGD(mega_batch={given.mega_batch})"
        )
    if cluster.elastic:
        raise ValueError(
            "Options: Cluster(elastic=True) goes on from the last iteration that counts, and "
            "between two merges AdaptiveSGD() has none; use SMA() or EASGD(), or leave elastic out"
        )
    if cluster.sync_period > 1:
        raise ValueError(
            f"Options: Cluster(sync_period={cluster.sync_period}) is in iterations, and hosts "
            "merge when AdaptiveSGD(mega_batch=...) rows have been trained on; leave sync_period "
            "out"
        )


def _check_elastic(
    chosen: object, batch_size: int | None, one_each: bool, chunk: int | str | None
) -> None:
    if isinstance(chosen, SSGD) and one_each:
        raise ValueError(
            "Options: with Cluster(elastic=True) SSGD() has to know the rows of a run before it is "
            'executed; got elements="one_each", which tells them later. Leave it out, or use '
            "SMA()"
        )
    if chunk == "search":
        raise ValueError(
            "Options: with Cluster(elastic=True) hosts that come and go would search on different "
            'numbers; got chunk="search". Give a number, or leave it out'
        )
    if batch_size is not None:
        raise ValueError(
            "Options: with Cluster(elastic=True) a run is one iteration, which is made again when "
            f"a host is lost; got batch_size={batch_size}, which makes several of it. Leave one "
            "of them out"
        )
