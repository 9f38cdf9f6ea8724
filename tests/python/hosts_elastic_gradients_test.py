"""Elastic hosts under S-SGD: the remaining hosts train on, with equal weights and slots, against
NumPy."""

import copy
import random

import numpy as np

from tests.python.host_programs import ROWS, rows_of
from tests.python.hosts import Hosts
from tests.python.hosts_gradients_test import Model

RUNS = 50


def survivors(running, dead):
    left = set(range(len(running.processes))) - dead
    return {rank: running.result(rank) for rank in sorted(left)}


def same(values, model, rtol=1e-9, atol=1e-12):
    """Returns whether weights and slots are the model's."""
    weights = np.append(values["w"], values["b"])
    slots = np.append(values["w/Momentum"], values["b/Momentum"])
    return np.allclose(weights, model.w, rtol, atol) and np.allclose(slots, model.m, rtol, atol)


def losses_of(model, rank, run):
    x, y = rows_of(rank, run)
    return np.mean((x @ model.w[:-1] + model.w[-1] - y) ** 2)


def check(results, learners, hosts=3):
    """Checks that the remaining hosts have the model's weights and slots after every run. All
    hosts train until some run, and the remaining ones from there on. `results` are by rank.
    Returns the run."""
    left = sorted(results)
    first = results[left[0]]
    model = Model(learners)
    lost = None
    for run, seen in enumerate(first["values"]):
        before = copy.deepcopy(model)
        for rank, result in results.items():
            np.testing.assert_allclose(
                result["losses"][run], losses_of(model, rank, run), 1e-9, err_msg=f"{rank}, {run}"
            )
        model.train([rows_of(h, run) for h in (left if lost is not None else range(hosts))])
        if lost is None and not same(seen, model):
            lost, model = run, before
            model.train([rows_of(host, run) for host in left])
        assert same(seen, model), f"run {run}, first without the lost host: {lost}"
        assert seen["global_step"] == run + 1
    assert lost is not None, "nobody has been lost"
    tasks = learners * (hosts * lost + len(left) * (len(first["values"]) - lost))
    for result in results.values():
        assert result["values"] == first["values"], "the same bits on all hosts"
        assert result["equal"], "and on all learners"
        assert result["counts"] == [len(first["values"]), tasks, tasks * ROWS // learners]
        assert result["warned"] and "does not answer" in result["warned"][0]
        assert result["synchroniser"] == "SSGD"
    return lost


def test_who_lacks_the_last_sums_takes_over_weights_and_slots():
    """One host notices the death at once, when another may have received the awaited sum."""
    victim = random.randrange(3)
    moment = [20, random.random() * 0.03]
    arguments = 2, RUNS, {str(victim): moment}, None, victim
    with Hosts(3, "descends_on", *arguments) as running:
        results = survivors(running, {victim})
    check(results, 2)


def test_hosts_are_lost_one_after_the_other():
    """Two of four hosts continue; and one of two, which is alone then."""
    deaths = {"0": [15, 0.01], "3": [30, 0.01]}
    with Hosts(4, "descends_on", 1, RUNS, deaths) as running:
        results = survivors(running, {0, 3})
    assert results[1]["values"] == results[2]["values"]
    assert results[1]["counts"] == results[2]["counts"]
    assert results[1]["counts"][0] == len(results[1]["values"]) == RUNS
    with Hosts(2, "descends_on", 2, RUNS, {"0": [20, 0.005]}) as running:
        results = survivors(running, {0})
    check(results, 2, hosts=2)


def test_elements_of_pipelines_are_trained_once():
    learners = 2
    arguments = learners, RUNS, {"1": [20, 0.01]}, [RUNS] * 3
    with Hosts(3, "descends_on", *arguments) as running:
        results = survivors(running, {1})
    check(results, learners)


def test_who_has_no_data_gets_what_the_others_have_learned_by_then():
    """Also from a host that is not the first of the remaining ones."""
    arguments = 1, RUNS, {"2": [20, 0.01]}, [10, RUNS, RUNS]
    with Hosts(3, "descends_on", *arguments) as running:
        idle, busy = survivors(running, {2}).values()
    assert len(idle["values"]) == 10
    assert len(busy["values"]) == RUNS
    assert idle["last"] == busy["last"]
    assert idle["counts"] == busy["counts"]
    assert idle["counts"][0] == RUNS


def test_who_has_no_data_cannot_go_on_without_those_that_have():
    arguments = 1, 10_000, {"1": [40, 0.0]}, [5, 10_000]
    with Hosts(2, "descends_on", *arguments) as running:
        alone = running.result(0)
    assert f"host 1 ({running.addresses[1]}) does not answer" in alone["error"]
    assert "No remaining host has the last update of the lost hosts" in alone["error"]
