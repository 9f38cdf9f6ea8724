"""The reports of long runs, of the drop-in property and of memory, on artificial numbers."""

import json
import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))

import drop_in
import drop_in_programs
import fully_connected
import long_run
import memory
import training_data
import ways

SSGD = ways.Way("SSGD", "SSGD")


def run_main(module, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["benchmark", *map(str, arguments)])
    module.main()


# --- ways and data -------------------------------------------------------------------------


def test_what_the_package_lacks_is_left_out_and_said():
    odd = ways.Way("SMA, odd", "SMA", {"no_such_argument": 1})
    known, absent = ways.available([ways.STOCK, odd, ways.Way("other", "NoSuchClass"), SSGD])
    assert known == [ways.STOCK, SSGD]
    assert absent == [
        "SMA, odd is not measured: no no_such_argument of tensorbow.SMA here.",
        "other is not measured: no tensorbow.NoSuchClass here.",
    ]


def test_small_images_are_repeated_and_cut():
    image = np.arange(4, dtype=np.float32).reshape(1, 2, 2, 1)
    wanted = [[0, 1, 0], [2, 3, 2], [0, 1, 0]]
    fitted = training_data.fit(image, (3, 3, 2))
    assert fitted.shape == (1, 3, 3, 2)
    for channel in range(2):
        assert fitted[0, :, :, channel].tolist() == wanted


# --- long_run ------------------------------------------------------------------------------


def slices(early, middle, late):
    return [float(early)] * 6 + [float(middle)] * 6 + [float(late)] * 18


def test_ratios_are_formed_within_each_window():
    stock, ours = slices(100, 100, 50), slices(150, 120, 40)
    assert [ratio[0] for ratio in long_run.ratios(ours, stock)] == pytest.approx([1.5, 1.2, 0.8])
    assert long_run.late_by_early(stock) == 0.5
    assert long_run.late_by_early(ours) == pytest.approx(40 / 150)


def test_who_slows_down_or_is_not_faster_than_stock_is_found():
    stock = slices(100, 100, 100)
    good = {"tf.Session": stock, "SMA": slices(150, 150, 149)}
    assert long_run.findings(good)[0].startswith("All:")
    slow = {"tf.Session": stock, "SMA": slices(150, 150, 90), "SSGD": slices(110, 110, 110)}
    assert long_run.findings(slow) == [
        "SMA: late ÷ early 0.60, wanted 0.95.",
        "SMA: late ÷ tf.Session 0.90, wanted 1.2.",
        "SSGD: late ÷ tf.Session 1.10, wanted 1.2.",
    ]


def dying(way, optimiser, drop_every, steps):
    settings = way.settings(2)
    step = fully_connected.dying_rate(
        "", 32, [16], optimiser, drop_every=drop_every, data=None, **settings
    )
    step(steps)
    return step


def test_a_long_run_of_averaged_gradients_is_that_of_stock():
    stock, ours = (dying(way, "momentum", 3, 8).value() for way in (ways.STOCK, SSGD))
    assert ours == pytest.approx(stock, rel=1e-5)


def test_the_learning_rate_dies():
    step = dying(ways.STOCK, "sgd", 1, 12)  # rate 1e-13 from here on
    before = step.value()
    step(3)
    assert step.value() == pytest.approx(before, rel=1e-6)
    alive = dying(ways.STOCK, "sgd", 1000, 12)
    before = alive.value()
    alive(3)
    assert abs(alive.value() - before) > 1e-3


def test_a_tiny_long_run_writes_its_report(monkeypatch, tmp_path, warm_python):
    monkeypatch.setattr(long_run, "HIDDEN", [8])
    monkeypatch.setattr(long_run, "SYNCHRONISERS", [SSGD])
    run_main(long_run, monkeypatch, "--steps", 60, "--optimiser", "momentum", "--results", tmp_path)
    report = json.loads((tmp_path / "long_run.json").read_text())
    found = report["rows"]["momentum"]
    assert {name: len(speeds) for name, speeds in found["samples_per_s"].items()} == {
        "tf.Session": 30,
        "SSGD": 30,
    }
    # The first step, which compiles, and 60 more, the same for both.
    assert found["loss"]["SSGD"] == pytest.approx(found["loss"]["tf.Session"], rel=1e-4)
    assert "## momentum, rate 0.01" in (tmp_path / "long_run.md").read_text()


# --- drop_in -------------------------------------------------------------------------------

STOCK_LOSSES = [[2.0, 1.0], [2.2, 1.2], [1.8, 0.8]]  # worst seed: 2.2, 1.2; mean: 2.0, 1.0


def test_within_is_no_worse_than_the_worst_seed_and_a_hundredth():
    # Means 2.2 and 1.21 ≤ 1.212; then 1.22 > 1.212.
    assert drop_in.within(STOCK_LOSSES, [[2.1, 1.20], [2.3, 1.22]]) == [True, True]
    assert drop_in.within(STOCK_LOSSES, [[2.1, 1.21], [2.3, 1.23]]) == [True, False]
    assert drop_in.within(STOCK_LOSSES, [[0.1, np.nan]]) == [True, False]
    assert drop_in.within([[np.inf, 1.0]], [[1.0, 1.0]]) == [False, True]


@pytest.mark.parametrize("name", drop_in_programs.PROGRAMS)
def test_every_program_trains_as_stock_where_gradients_are_averaged(name):
    program = drop_in_programs.PROGRAMS[name]
    data = program.data(None)
    held_out = data[0], tuple(array[:16] for array in data[1])
    (stock, alone), (ours, took_part) = (
        drop_in.losses(program, held_out, "sgd", 1, way, 2, [1, 2]) for way in (ways.STOCK, SSGD)
    )
    assert np.isfinite(stock).all()
    assert alone == 1
    # Gradients of the tables of words are sparse; those of a loop's weights are not found.
    assert took_part == 2 or name in ("embedding", "lstm")
    # Learners draw noise of their own, and normalise by their own rows.
    loose = {"vae": 0.1, "resnet20": 0.3}.get(name, 1e-4)
    np.testing.assert_allclose(ours, stock, rtol=loose)


def test_programs_run_one_after_the_other_are_merged(monkeypatch, tmp_path):
    monkeypatch.setitem(drop_in.QUICK, "points", [1, 2])
    options = ["--quick", "--optimiser", "sgd", "--learners", 2, "--results", tmp_path, "--only"]
    run_main(drop_in, monkeypatch, *options, "embedding")
    run_main(drop_in, monkeypatch, *options, "mlp")
    report = json.loads((tmp_path / "drop_in_quick.json").read_text())
    assert list(report["rows"]) == ["embedding sgd", "mlp sgd"]
    for row in report["rows"].values():
        assert {name: np.shape(v) for name, v in row["loss"].items()} == {
            "tf.Session": (1, 2),
            "2 learners": (1, 2),
            "2 learners, SMA": (1, 2),
        }
    text = (tmp_path / "drop_in_quick.md").read_text()
    assert "| embedding | sgd |" in text and "| mlp | sgd |" in text


def test_rows_made_in_another_way_are_not_merged(tmp_path):
    header = {"points": [1], "seeds": 1, "learners": [2], "rows_per_run": 32, "tolerance": 0.01}
    path = tmp_path / "drop_in.json"
    path.write_text(json.dumps({**header, "rows": {"a": 1}}))
    assert drop_in.merged(path, header)["rows"] == {"a": 1}
    with pytest.raises(ValueError, match="has seeds 1, these are 3"):
        drop_in.merged(path, {**header, "seeds": 3})


# --- memory --------------------------------------------------------------------------------


def test_the_network_has_about_as_many_parameters_as_asked_for():
    # 784·512 + 512, twice 512·512 + 512, 512·10 + 10.
    assert memory.count(512) == 401_920 + 2 * 262_656 + 5_130
    assert memory.hidden_units(memory.count(512)) == 512
    assert memory.count(memory.hidden_units(25_000_000)) == pytest.approx(25e6, rel=1e-3)


def test_a_process_grows_at_least_by_its_weights():
    units = memory.hidden_units(4_000_000)
    found = memory.measure(ways.STOCK, units, "sgd", steps=2, learners=1, repeats=1)
    (resident,), (first,), (later,) = (found[kind] for kind in memory.KINDS)
    # Weights, gradients, and no more than some copies.
    for peak in (first, later):
        assert 4 * memory.count(units) <= peak <= 10 * 4 * memory.count(units)
    assert resident <= max(first, later)
