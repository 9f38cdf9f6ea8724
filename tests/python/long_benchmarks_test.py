"""The reports of long runs, of the drop-in property and of memory, on artificial numbers."""

import json
import pathlib
import sys
import types

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


def test_a_table_of_a_long_run_names_the_steps_of_its_windows():
    speeds = {"tf.Session": slices(100, 100, 50), "SMA": slices(150, 120, 60)}
    header, _, stock, sma = long_run.table(speeds, {"tf.Session": 0.5, "SMA": 0.25}, 100)
    for span in ("0–600", "600–1,200", "1,200–3,000"):
        assert f"samples/s, steps {span}" in header and f"÷ tf.Session, {span}" in header
    assert stock.endswith("| 0.50 | 0.5000 |")
    assert "150 (150–150)" in sma and "1.50 (1.50–1.50)" in sma and "1.20 (1.20–1.20)" in sma
    assert sma.endswith("| 0.40 | 0.2500 |")


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
POINTS = [30, 100]


def test_within_is_no_worse_than_the_worst_seed_and_a_hundredth():
    # Means 2.2 and 1.21 ≤ 1.212; then 1.22 > 1.212.
    assert drop_in.within(STOCK_LOSSES, [[2.1, 1.20], [2.3, 1.22]]) == [True, True]
    assert drop_in.within(STOCK_LOSSES, [[2.1, 1.21], [2.3, 1.23]]) == [True, False]
    assert drop_in.within(STOCK_LOSSES, [[0.1, np.nan]]) == [True, False]
    assert drop_in.within([[np.inf, 1.0]], [[1.0, 1.0]]) == [False, True]


def test_a_verdict_states_the_distance_to_the_mean_where_it_is_worse():
    assert drop_in.verdict(STOCK_LOSSES, [[2.0, 1.0]], POINTS) == "within"
    assert drop_in.verdict(STOCK_LOSSES, [[2.0, 1.5]], POINTS) == "worse: +50% at 100"


def made_row(optimiser="adam", two=1.0):
    losses = {"tf.Session": STOCK_LOSSES, "2 learners": [[2.0, two]], "4 learners": [[2.0, 1.5]]}
    if optimiser == "adam":
        losses |= {f"{n} learners, SMA": [[2.0, 3.0]] for n in (2, 4)}
    return {
        "program": "mlp",
        "optimiser": optimiser,
        "rate": 0.001,
        "loss": losses,
        "took_part": {name: 4 for name in losses},
    }


def test_sma_under_adam_has_a_line_of_its_own_and_does_not_count():
    rows = {"mlp adam": made_row(), "mlp sgd": made_row("sgd", two=1.1)}
    lines = drop_in.table(rows, POINTS, [2, 4])[2:]
    assert [line.split(" | ")[1:4] for line in lines] == [
        ["adam", "0.001", "default"],
        ["adam", "0.001", "`SMA()`"],
        ["sgd", "0.001", "default"],
    ]
    assert "| 2 (1.8–2.2) · 1 (0.8–1.2) | 2 · 1 | 2 · 1.5 |" in lines[0]
    assert lines[0].endswith("2: within; 4: worse: +50% at 100 |")
    assert lines[1].endswith("2: worse: +200% at 100; 4: worse: +200% at 100 |")
    assert drop_in.summary(rows).startswith("Default options: 2 of 4 within")
    assert drop_in.summary(rows).endswith("at every point.")


def test_learners_that_did_not_take_part_are_said():
    row = made_row("sgd")
    row["took_part"]["4 learners"] = 1
    assert drop_in.table({"mlp sgd": row}, POINTS, [2, 4])[-1].endswith(
        "2: within; 4: worse: +50% at 100 (by 1 only) |"
    )
    assert drop_in.summary({"mlp sgd": row}).endswith("1 of them not all learners took part.")


def test_sma_is_named_beside_the_default():
    assert [drop_in.name_of(*c) for c in drop_in.contenders([2, 4])] == [
        "tf.Session",
        "2 learners",
        "4 learners",
        "2 learners, SMA",
        "4 learners, SMA",
    ]


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


def test_programs_are_judged_by_their_own_metric_and_noise():
    def comparison(several, worse_by):
        return types.SimpleNamespace(
            quality=types.SimpleNamespace(name="accuracy", higher_is_better=True),
            stock=[0.9, 0.8],
            several=several,
            noise=0.1,
            worse_by=worse_by,
        )

    found = {"cnn": {2: comparison([0.85, 0.9], -0.025), 4: comparison([0.5, 0.6], 0.3)}}
    (line,) = drop_in.programs_table(found)[2:]
    assert line == (
        "| `cnn` | accuracy ↑ | 0.9 · 0.8 | 0.85 · 0.9 | 0.5 · 0.6 | 0.1 "
        "| 2: within; 4: worse by 0.3 |"
    )


# --- memory --------------------------------------------------------------------------------


def test_the_network_has_about_as_many_parameters_as_asked_for():
    # 784·512 + 512, twice 512·512 + 512, 512·10 + 10.
    assert memory.count(512) == 401_920 + 2 * 262_656 + 5_130
    assert memory.hidden_units(memory.count(512)) == 512
    assert memory.count(memory.hidden_units(25_000_000)) == pytest.approx(25e6, rel=1e-3)


def test_bytes_are_divided_by_parameters_and_by_learners():
    row = {"parameters": 10, "learners": 2, "resident": [200, 240, 220], "peak": [300, 300, 300]}
    (line,) = memory.table({"SMA": row})[2:]
    assert line == "| SMA | 2 | 22.0 (21.0–23.0) | 11.0 | 30.0 (30.0–30.0) | 15.0 |"


def test_a_process_grows_at_least_by_its_weights():
    units = memory.hidden_units(4_000_000)
    found = memory.measure(ways.STOCK, units, "sgd", steps=2, learners=1, repeats=1)
    (resident,), (peak,) = found["resident"], found["peak"]
    # Weights, gradients, and no more than some copies.
    assert 4 * memory.count(units) <= peak <= 10 * 4 * memory.count(units)
    assert resident <= peak
