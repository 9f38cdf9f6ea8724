"""The statistics of the benchmarks, on artificial curves."""

import dataclasses
import itertools
import pathlib
import sys
from types import MappingProxyType

import numpy as np
import pytest
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))

import accuracy_runs
import accuracy_tuning
import synchronisation_cost
from accuracy_report import Row
from accuracy_runs import Recipe

import tensorbow
from tensorbow import models
from tensorbow.datasets import Images

SAMPLES = [10, 20, 30, 40, 50, 60, 70]


def test_medians_begin_with_the_fifth_evaluation():
    medians = accuracy_runs.medians_of_last([0.5, 0.9, 0.1, 0.7, 0.6, 0.8, 0.8])
    assert np.isnan(medians[:4]).all()
    # of {.5 .9 .1 .7 .6}, {.9 .1 .7 .6 .8}, {.1 .7 .6 .8 .8}
    assert medians[4:] == [0.6, 0.7, 0.7]


def test_one_lucky_evaluation_does_not_reach_the_target():
    accuracy = [0.5, 0.5, 0.5, 0.99, 0.5, 0.5, 0.5]
    assert accuracy_runs.samples_to_target(SAMPLES, accuracy, 0.9) is None


def test_samples_to_target_are_interpolated_between_medians():
    # Medians: 0.4 at 50 samples, 0.8 at 60; half-way is 0.6 at 55, three quarters 0.7 at 57.5.
    accuracy = [0.0, 0.2, 0.4, 0.8, 0.9, 0.9, 0.9]
    assert accuracy_runs.samples_to_target(SAMPLES, accuracy, 0.6) == pytest.approx(55)
    assert accuracy_runs.samples_to_target(SAMPLES, accuracy, 0.7) == pytest.approx(57.5)
    assert accuracy_runs.samples_to_target(SAMPLES, accuracy, 0.8) == pytest.approx(60)


def test_a_first_median_at_the_target_counts_with_its_own_samples():
    accuracy = [0.9, 0.9, 0.9, 0.9, 0.9, 0.1, 0.1]
    assert accuracy_runs.samples_to_target(SAMPLES, accuracy, 0.8) == 50


def test_the_first_crossing_counts_even_when_the_accuracy_falls_again():
    accuracy = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    samples = list(range(100, 1200, 100))
    # Medians: 0 up to 700 samples, 1 at 800, 900 and 1000, 0 at 1100.
    assert accuracy_runs.samples_to_target(samples, accuracy, 0.5) == pytest.approx(750)


def test_tuning_prefers_a_reached_target_then_a_small_error_and_divergence_least():
    fast = accuracy_tuning.score(SAMPLES, [0.9] * 7, 0.9)
    slow = accuracy_tuning.score(SAMPLES, [0.0, 0.0, 0.0, 0.0, 0.9, 0.9, 0.9], 0.9)
    never = accuracy_tuning.score(SAMPLES, [0.8] * 7, 0.9)
    diverged = accuracy_tuning.score([], [], 0.9)
    assert fast < slow < never < diverged
    assert never == (float("inf"), pytest.approx(0.2))
    # The mean of the last five counts: 0.3 / 5.
    assert accuracy_tuning.score(SAMPLES, [0, 0, 1, 1, 1, 1, 0.7], 1.1)[1] == pytest.approx(0.06)


def test_the_average_follows_its_formula():
    average = accuracy_runs.Average([np.float32([1.0, 2.0])], decay=0.15)
    average.update([np.float32([3.0, 6.0])])
    # d = min(0.15, 1/10) = 0.1: 0.1·1 + 0.9·3 = 2.8, and twice that.
    np.testing.assert_allclose(average.values[0], [2.8, 5.6], rtol=1e-6)
    average.update([np.float32([0.0, 1.0])])
    # d = min(0.15, 2/11) = 0.15: 0.15·2.8 = 0.42, 0.15·5.6 + 0.85·1 = 1.69.
    np.testing.assert_allclose(average.values[0], [0.42, 1.69], rtol=1e-6)


def test_the_average_is_that_of_tensorflow():
    values = np.random.default_rng(0).standard_normal((20, 40_000)).astype(np.float32)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        weights = tf.compat.v1.get_variable("weights", initializer=values[0])
        step = tf.compat.v1.placeholder(tf.float32, [])
        ema = tf.train.ExponentialMovingAverage(accuracy_runs.EMA_DECAY, step)
        update = ema.apply([weights])
        session.run(tf.compat.v1.global_variables_initializer())
        ours = accuracy_runs.Average([values[0]])
        for t, value in enumerate(values[1:]):
            weights.load(value, session)
            session.run(update, {step: t})
            ours.update([value])
        np.testing.assert_allclose(ours.values[0], session.run(ema.average(weights)), atol=1e-6)


@pytest.mark.skipif(
    accuracy_runs.missing("SMA", averaged=True) is not None, reason="this package has no ema_decay"
)
def test_the_average_is_that_of_ema_decay(logistic):
    task = logistic(tuning=False)
    central, products = [], []
    for decay in (None, 0.9):
        program = models.build("logistic", (28, 28, 1), seed=1)
        with program.graph.as_default():
            weights = tf.compat.v1.trainable_variables()
        options = tensorbow.Options(
            learners_per_device=2, synchroniser=tensorbow.SMA(ema_decay=decay)
        )
        with tensorbow.TensorBowSession(graph=program.graph, options=options) as session:
            session.run(program.init)
            read = [session.run(weights)]
            for index in itertools.islice(accuracy_runs.batches(20, 2000, seed=0), 100):
                feeds = {
                    program.images: task.train[0][index],
                    program.labels: task.train[1][index],
                }
                session.run(program.train_op, feeds)
                read.append(session.run(weights))
        (products if decay else central).extend(read)
    ours = accuracy_runs.Average(central[0], 0.9)
    for values in central[1:]:
        ours.update(values)
    for mine, product in zip(ours.values, products[-1]):
        np.testing.assert_allclose(mine, product, rtol=1e-5, atol=1e-6)


def test_batches_see_every_row_once_in_a_pass():
    stream = accuracy_runs.batches(4, 10, seed=3)
    rows = np.concatenate([next(stream) for _ in range(5)])
    assert sorted(rows[:10]) == sorted(rows[10:]) == list(range(10))
    assert list(rows[:10]) != list(rows[10:])


def test_every_way_of_a_grid_has_a_name_of_its_own():
    for quick in (False, True):
        recipes = accuracy_runs.grid("lenet", quick)
        names = {recipe.name(averaged) for recipe in recipes for averaged in (False, True)}
        assert len(names) == 2 * len(recipes)


@pytest.fixture
def logistic():
    """Makes tasks that take no time: a bright row of the image shows the class."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 10, 3000).astype(np.int32)
    images = random.random((3000, 28, 28, 1), np.float32)
    images[np.arange(3000), labels] += 0.5
    split = Images("rows", images[:2000], labels[:2000], images[2000:], labels[2000:])
    lengths = accuracy_runs.Lengths(3000, 300, 300)
    setting = accuracy_runs.Setting(0.8, lengths, lengths, held_back=500, rate=0.01)
    return lambda tuning: accuracy_runs.Task("logistic", split, setting, tuning)


@pytest.mark.parametrize("recipe", [Recipe("stock", 20, 0.9), Recipe("SMA", 10, 0.0, 2)])
def test_a_run_ends_when_all_its_curves_have_reached_the_target(logistic, recipe):
    curves = logistic(tuning=False).run(recipe, 0.05, 1, accuracy_runs.KINDS, threads=1)
    reached = [
        accuracy_runs.samples_to_target(curves["samples"][: len(curves[k])], curves[k], 0.8)
        for k in accuracy_runs.KINDS
    ]
    assert None not in reached
    assert max(map(len, (curves[k] for k in accuracy_runs.KINDS))) == len(curves["samples"])
    assert curves["samples"][-1] < 3000


def test_a_diverging_run_has_no_samples_to_target(logistic):
    curves = logistic(tuning=False).run(Recipe("stock", 20, 0.0), np.inf, 1, ["plain"], 1)
    assert accuracy_runs.samples_to_target(curves["samples"], curves["plain"], 0.8) is None


def test_tuning_never_sees_the_test_set(logistic):
    task, final = logistic(tuning=True), logistic(tuning=False)
    known = {row.tobytes() for row in final.train[0]}
    held_back = [row.tobytes() for row in task.evaluate[0]]
    trained = {row.tobytes() for row in task.train[0]}
    assert len(held_back) == 500
    assert len(trained) == 1500
    assert not trained & set(held_back)
    assert set(held_back) <= known


def test_a_finished_run_is_found_again(logistic, tmp_path):
    cache = tmp_path / "runs.jsonl"
    recipe = Recipe("stock", 20, 0.0)
    task = logistic(tuning=False)
    first = accuracy_runs.Runs(cache, 1, float("inf")).get(task, recipe, 0.01, 1, ["plain"])
    again = accuracy_runs.Runs(cache, 1, deadline=0)
    assert again.get(task, recipe, 0.01, 1, ["plain"]) == first
    assert (
        again.get(task, recipe, 0.01, 1, accuracy_runs.KINDS) is None
    )  # was not made, no time left
    assert again.get(task, recipe, 0.02, 1, ["plain"]) is None


def test_kinds_trained_in_two_runs_are_found_together(tmp_path):
    runs = accuracy_runs.Runs(tmp_path / "runs.jsonl", 1, deadline=0)
    runs.append({"k": 1}, {"samples": [10, 20], "plain": [0.1, 0.2]}, 0)
    assert runs.find({"k": 1}, accuracy_runs.KINDS) is None
    runs.append({"k": 1}, {"samples": [10, 20, 30], "averaged": [0.3, 0.4, 0.5]}, 0)
    both = {"samples": [10, 20, 30], "plain": [0.1, 0.2], "averaged": [0.3, 0.4, 0.5]}
    assert runs.find({"k": 1}, accuracy_runs.KINDS) == both
    assert runs.find({"k": 2}, ["plain"]) is None


class ParabolicRuns:
    """Runs whose accuracy is best at rates of 0.32 (plain) and 1.28·√2 (averaged).

    Each seed but the first prefers a larger rate, the third a smaller one.
    """

    BEST = MappingProxyType({"plain": 0.32, "averaged": 1.81019})

    def __init__(self):
        self.tried = []

    def find(self, key, kinds):
        if (key["rate"], key["seed"]) not in self.tried:
            return None
        return self.curves(key["rate"], key["seed"], kinds)

    def get(self, task, recipe, rate, seed, kinds):
        self.tried.append((rate, seed))
        return self.curves(rate, seed, kinds)

    def curves(self, rate, seed, kinds):
        slope = (0, 1, -1)[seed]
        ends = {
            kind: 0.5 - 0.01 * np.log2(rate / self.BEST[kind]) ** 2 + 0.1 * slope * np.log2(rate)
            for kind in kinds
        }
        return {"samples": SAMPLES, **{kind: [end] * 7 for kind, end in ends.items()}}


def test_tuning_climbs_until_both_neighbours_are_worse(logistic):
    runs, task, recipe = (
        ParabolicRuns(),
        logistic(tuning=True),
        Recipe("stock", 16, 0.0),
    )
    assert accuracy_tuning.rate_at(recipe, task.setting, 0) == 0.01
    assert accuracy_tuning.tune(runs, task, recipe, ["plain"]) == {"plain": 0.32}
    coarse = [(0.005 * 2**k, 0) for k in range(8)]
    fine = [(rate, seed) for rate in (0.226274, 0.452548) for seed in range(3)]
    fine += [(0.32, 1), (0.32, 2)]
    assert sorted(runs.tried) == sorted(coarse + fine)
    assert accuracy_tuning.tune(runs, task, recipe) == {"plain": 0.32, "averaged": 1.81019}
    task.setting = dataclasses.replace(task.setting, finely=False)
    coarsely = accuracy_tuning.tune(ParabolicRuns(), task, recipe)
    assert coarsely["plain"] == 0.32
    assert coarsely["averaged"] in (1.28, 2.56)


class RunsWithTwoHills(ParabolicRuns):
    """Runs with two hills: averaged, 0.01 is better than its neighbours, yet 0.32 is better
    still."""

    def curves(self, rate, seed, kinds):
        averaged = {0.01: 0.4, 0.32: 0.6}.get(rate, 0.3)
        return super().curves(rate, seed, kinds) | {"averaged": [averaged] * 7}


def test_each_kind_is_tuned_with_what_the_other_tried(logistic):
    task, recipe = logistic(tuning=True), Recipe("stock", 16, 0.0)
    task.setting = dataclasses.replace(task.setting, finely=False)
    alone = accuracy_tuning.tune(RunsWithTwoHills(), task, recipe, ["averaged"])
    assert alone == {"averaged": 0.01}
    both = accuracy_tuning.tune(RunsWithTwoHills(), task, recipe)
    assert both == {"plain": 0.32, "averaged": 0.32}


def test_the_two_best_rates_are_compared_with_more_seeds(logistic):
    class LuckyFirstSeed(ParabolicRuns):
        def curves(self, rate, seed, kinds):
            end = {0.01: 0.5, 0.02: 0.7}.get(rate, 0.3) if seed == 0 else 0.5 - 20 * rate
            return {"samples": SAMPLES, **{kind: [end] * 7 for kind in kinds}}

    runs, task, recipe = LuckyFirstSeed(), logistic(tuning=True), Recipe("stock", 16, 0.0)
    task.setting = dataclasses.replace(task.setting, finely=False)
    assert accuracy_tuning.tune(runs, task, recipe, ["plain"]) == {"plain": 0.01}
    assert {rate for rate, seed in runs.tried if seed > 0} == {0.01, 0.02}


def test_tuning_without_time_has_no_result(logistic, tmp_path):
    runs = accuracy_runs.Runs(tmp_path / "runs.jsonl", 1, deadline=0)
    assert accuracy_tuning.tune(runs, logistic(tuning=True), Recipe("stock", 16, 0.0)) == {}


def test_seconds_are_samples_by_samples_per_second():
    row = Row(
        Recipe("stock", 16, 0.0),
        False,
        0.1,
        samples=[300.0, 100.0, 200.0],
        speeds=[50.0],
    )
    assert row.middle == 200
    assert row.seconds == 4
    # Two seeds of three did not reach the target: neither did the median.
    assert dataclasses.replace(row, samples=[300.0, None, None]).middle is None
    assert dataclasses.replace(row, samples=[300.0, None, None]).seconds is None


def test_a_line_is_fitted_with_its_error():
    fit = synchronisation_cost.line([1e6, 2e6, 4e6], [1.5e-3, 2.5e-3, 4.5e-3])
    assert fit["intercept_s"] == pytest.approx(0.5e-3)
    assert fit["s_per_parameter"] == pytest.approx(1e-9)
    assert fit["r2"] == pytest.approx(1)


def test_bytes_of_an_iteration_are_counted_from_the_algorithm():
    # 1000 floats. Update: w and g read, w written, by each of two learners.
    assert synchronisation_cost.update_bytes(1000, 2, momentum=False) == 2 * 3 * 4000
    # Averaging: z read by two learners; two w, z and z_prev read, z_next written.
    assert synchronisation_cost.averaging_bytes(1000, 2, momentum=False) == (2 + 2 + 3) * 4000
    # The learners' optimiser has momentum: its slot read and written; none of its own.
    assert synchronisation_cost.update_bytes(1000, 2, momentum=True) == 2 * 5 * 4000
    assert synchronisation_cost.averaging_bytes(1000, 2, momentum=True) == (2 + 2 + 2) * 4000
    assert synchronisation_cost.averaging_bytes(1000, 1, momentum=False) == 0
