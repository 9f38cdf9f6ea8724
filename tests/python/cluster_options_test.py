"""`Cluster`: its arguments, the meaning of TF_CONFIG, and incompatible options."""

import json

import pytest

import tensorbow
from tensorbow import Cluster

TWO = ("a:1", "b:2")
ADAPTIVE = tensorbow.AdaptiveSGD(b_max=8)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("a:1", 0), TypeError, "hosts must be a list"),
        ((["a"], 0), ValueError, "\"name:port\" each, got 'a'"),
        ((["a:0"], 0), ValueError, '"name:port" each'),
        (([], 0), ValueError, "at least one"),
        ((["a:1", "a:1"], 0), ValueError, "must be different"),
        ((TWO, 2), ValueError, "rank must be 0 to 1, got 2"),
        ((TWO, "0"), TypeError, "rank must be an int"),
        ((TWO, 0, -1), ValueError, "start_limit_seconds must be at least 0"),
        ((TWO, 0, 60, 1), ValueError, "hang_limit_seconds must be at least 2"),
        ((TWO, 0, "60"), TypeError, "start_limit_seconds must be a number"),
        ((TWO, 0, 60, 4, 0), ValueError, "Cluster: sync_period must be from 1 to"),
        ((TWO, 0, 60, 4, 2.0), TypeError, "Cluster: sync_period must be an int"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Cluster(*arguments)


def tf_config(cluster, kind, index):
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})}


@pytest.mark.parametrize(
    ("cluster", "kind", "index", "rank"),
    [
        ({"worker": ["a:1", "b:2"]}, "worker", 1, 1),
        ({"worker": ["b:2"], "chief": ["a:1"]}, "chief", 0, 0),
        ({"worker": ["b:2"], "chief": ["a:1"]}, "worker", 0, 1),
    ],
)
def test_the_chief_comes_first_in_tf_config(cluster, kind, index, rank):
    assert Cluster.from_tf_config(tf_config(cluster, kind, index)) == Cluster(TWO, rank)


ALONE = [tf_config({kind: ["a:1"]}, kind, 0) for kind in ("worker", "chief", "master")]


@pytest.mark.parametrize("environment", [{}, {"TF_CONFIG": ""}, {"TF_CONFIG": "{}"}, *ALONE])
def test_there_is_no_cluster_of_one_task_or_without_tf_config(environment):
    assert Cluster.from_tf_config(environment) is None


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"TF_CONFIG": "worker 0"}, "must be JSON like"),
        ({"TF_CONFIG": "[1]"}, "must be JSON like"),
        (tf_config({"ps": ["a:1"], "worker": ["b:2"]}, "worker", 0), "of the kind 'ps'"),
        (tf_config({"worker": ["b:2"]}, "evaluator", 0), "of the kind 'evaluator'"),
        (tf_config({"worker": ["b:2"]}, "worker", 1), "this is worker 1, and there are 1"),
        (tf_config({"worker": ["b:2"]}, "chief", 0), "this is chief 0, and there are 0"),
    ],
)
def test_a_tf_config_that_is_not_for_us_is_refused(environment, message):
    with pytest.raises(ValueError, match=message):
        Cluster.from_tf_config(environment)


def test_auto_is_what_tf_config_says(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert tensorbow.Options().cluster is None
    monkeypatch.setenv("TF_CONFIG", tf_config({"worker": list(TWO)}, "worker", 1)["TF_CONFIG"])
    assert tensorbow.Options().cluster == Cluster(TWO, 1)
    assert tensorbow.Options(cluster="auto").cluster == Cluster(TWO, 1)
    assert tensorbow.Options(cluster=None).cluster is None
    for refused in ({"synchroniser": tensorbow.Independent()}, {"learners_per_device": "auto"}):
        with pytest.raises(ValueError, match="TF_CONFIG describes a cluster; cluster=None"):
            tensorbow.Options(**refused)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"cluster": "a:1"}, TypeError, "cluster must be a tensorbow.Cluster"),
        ({"synchroniser": tensorbow.SSGD(ema_decay=0.9)}, ValueError, "must be SMA"),
        ({"synchroniser": tensorbow.Independent()}, ValueError, "must be SMA"),
        ({"synchroniser": tensorbow.AdaptiveSGD()}, ValueError, "wants a b_max"),
        (
            {"synchroniser": tensorbow.AdaptiveSGD(b_max=8, mega_batch=1)},
            ValueError,
            r"shared out among 2 hosts; got AdaptiveSGD\(mega_batch=1\)",
        ),
        (
            {"synchroniser": ADAPTIVE, "cluster": Cluster(TWO, 0, elastic=True)},
            ValueError,
            "between two merges AdaptiveSGD",
        ),
        (
            {"synchroniser": ADAPTIVE, "cluster": Cluster(TWO, 0, sync_period=2)},
            ValueError,
            "leave sync_period out",
        ),
        (
            {"synchroniser": ADAPTIVE, "cluster": Cluster(TWO, 0, chunk=2)},
            ValueError,
            "is about gradients",
        ),
        ({"learners_per_device": "auto"}, ValueError, "with a cluster give a number"),
    ],
)
def test_options_that_do_not_go_with_a_cluster_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        tensorbow.Options(**{"cluster": Cluster(TWO, 0), **options})


@pytest.mark.parametrize(
    ("synchroniser", "message"),
    [
        (tensorbow.SSGD(), r"SSGD\(\) averages the gradients of all hosts in every iteration"),
        (tensorbow.SMA(sync_period=3), r"Cluster\(sync_period=2\) and SMA\(sync_period=3\)"),
        (tensorbow.EASGD(), r"the lagging centre of EASGD"),
        (tensorbow.SMA(centre="lagging"), r"the lagging centre of SMA"),
    ],
)
def test_averages_now_and_then_are_of_models_only(synchroniser, message):
    rare = Cluster(TWO, 0, sync_period=2)
    with pytest.raises(ValueError, match=message):
        tensorbow.Options(cluster=rare, synchroniser=synchroniser)
    assert tensorbow.Options(cluster=rare).synchroniser == tensorbow.SMA()
    assert tensorbow.Options(cluster=Cluster(TWO, 0)).synchroniser == "auto"


def test_a_cluster_of_one_host_is_none():
    """Learners train as without it, and everything works."""
    from tensorbow.cli.launch import free_addresses
    from tests.python.host_programs import Regression

    program = Regression(0)
    with program.session(free_addresses(1), 0, 2) as session:
        session.run(program.init)
        session.run(program.train, program.feeds(0, 0))
        session.set_learners(3)
        session.run(program.train, program.feeds(0, 1))
        assert (session.iterations, session.learning_tasks) == (2, 5)


@pytest.mark.parametrize("synchroniser", ["EASGD", "SMA"])
def test_the_bound_of_alpha_is_by_the_learners_of_all_hosts(synchroniser):
    lagging = {"centre": "lagging"} if synchroniser == "SMA" else {}
    chosen = getattr(tensorbow, synchroniser)(alpha=0.45, **lagging)
    options = tensorbow.Options(learners_per_device=2, cluster=Cluster(TWO, 0), synchroniser=chosen)
    with pytest.raises(ValueError, match=r"less than 2 / \(L \+ 1\) = 0.4 with L = 4 learners"):
        options.check_learners(0)
    with pytest.raises(ValueError, match=r"less than 2 / \(L \+ 1\) = 0.4 with L = 4 learners"):
        options.deposit(0)
    alone = tensorbow.Options(learners_per_device=2, cluster=None, synchroniser=chosen)
    alone.check_learners(0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"synchroniser": tensorbow.SSGD(), "elements": "one_each"},
            r"SSGD\(\) has to know the rows of a run before .* got elements=\"one_each\"",
        ),
        ({"batch_size": 4}, "got batch_size=4, which makes several of it"),
    ],
)
def test_what_does_not_go_with_elastic_hosts_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        tensorbow.Options(cluster=Cluster(TWO, 0, elastic=True), **options)


def test_elastic_hosts_average_what_others_do():
    elastic = Cluster(TWO, 0, elastic=True)
    assert tensorbow.Options(cluster=elastic).synchroniser == "auto"
    each = tensorbow.Options(cluster=elastic, elements="one_each")
    assert each.synchroniser == tensorbow.SMA()
    for chosen in (tensorbow.SMA(centre="lagging"), tensorbow.EASGD(), tensorbow.SSGD()):
        assert tensorbow.Options(cluster=elastic, synchroniser=chosen).synchroniser == chosen
    with pytest.raises(ValueError, match='search on different numbers; got chunk="search"'):
        tensorbow.Options(cluster=Cluster(TWO, 0, elastic=True, chunk="search"))
    with pytest.raises(ValueError, match="after every iteration, got sync_period=2"):
        Cluster(TWO, 0, elastic=True, sync_period=2)
    with pytest.raises(TypeError, match="elastic must be a bool"):
        Cluster(TWO, 0, elastic=1)
    assert not Cluster(TWO, 0).elastic
