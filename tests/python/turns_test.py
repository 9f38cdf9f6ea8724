"""Contenders take turns, and their speed is compared by pairs of turns."""

import argparse
import itertools

import pytest

from tensorbow.cli.machine import Load
from tensorbow.cli.train.turns import Contender, Progress, doubts, ratio, take_turns


def contender(name, rate, rows=100, epoch=1000, log=None):
    """Makes a contender of `epoch` rows an epoch, at `rate(run)` rows per second."""
    progress = Progress(name, 0.9)

    def runs():
        done, clock = 0, 0.0
        for k in itertools.count():
            seconds = rows / rate(k)
            done, clock = done + rows, clock + seconds
            if done % epoch == 0:
                progress.samples.append(done)
                progress.seconds.append(clock)
                progress.accuracy.append(0.5)
            if log is not None:
                log.append(name)
            yield rows, seconds

    return Contender(progress, runs())


def progress(*turns, name="a"):
    return Progress(name, 0.9, turns=list(turns))


def test_contenders_take_turns_of_a_second():
    log = []
    pair = [contender("slow", lambda k: 100, log=log), contender("fast", lambda k: 200, log=log)]
    take_turns(pair, epochs=2)
    # A second is one run of the slow one and two of the fast one, as long as both train.
    assert log == ["slow", "fast", "fast"] * 10 + ["slow"] * 10
    for one in pair:
        assert len(one.progress.accuracy) == 2
        assert sum(rows for rows, _ in one.progress.turns) == 2000


def test_without_epochs_each_trains_for_ten_seconds_and_as_many_epochs():
    pair = [contender(str(rate), lambda k, r=rate: r, 128, 1024) for rate in (512, 1024)]
    take_turns(pair, epochs=None)
    # Ten seconds of the fast one are ten epochs of 1024 rows.
    assert [len(one.progress.accuracy) for one in pair] == [10, 10]
    assert pair[1].progress.trained_seconds == 10


def test_without_epochs_there_are_three_at_least():
    (one,) = pair = [contender("slow", lambda k: 10)]
    take_turns(pair, epochs=None)
    assert len(one.progress.accuracy) == 3


def test_a_short_rest_of_an_epoch_belongs_to_the_turn_before():
    (one,) = pair = [contender("one", lambda k: 400, rows=100, epoch=900)]
    take_turns(pair, epochs=1)
    assert one.progress.turns == [(400, 1.0), (500, 1.25)]


def test_the_median_of_the_turns_is_not_moved_by_one_that_was_disturbed():
    disturbed = progress((100, 1.0), (100, 50.0), (100, 1.0), (110, 1.0), (90, 1.0))
    assert disturbed.samples_per_second == 100
    assert disturbed.spread == pytest.approx(0.1)  # from 90 to 100
    found = ratio(disturbed, progress(*[(200, 1.0)] * 4))
    # Pairs, in order: 200 / 110, 2, 2, 100.
    assert found.pairs == 4
    assert found.median == pytest.approx(2)
    assert found.low == pytest.approx(2 - (2 - 200 / 110) / 4)


def test_a_comparison_that_is_short_or_disturbed_is_doubted():
    long, short = progress((100, 11.0)), progress((100, 1.5), name="b")
    assert doubts([long, long], others=0.1, cores=2) == []
    (found,) = doubts([long, short], others=0.1, cores=2)
    assert found.startswith("too short: b trained for 1.5 s, and a comparison wants 10 s of each.")
    (found,) = doubts([long, long], others=1.26, cores=2)
    assert found.startswith("machine busy: other programs used 1.3 of 2 cores meanwhile.")


def test_the_picture_of_a_doubted_comparison_says_so(monkeypatch, tmp_path):
    from tensorbow.cli.train import report

    titles = []
    monkeypatch.setattr(report, "_plot", lambda rows, title, path: titles.append(title))
    files = argparse.Namespace(plot=tmp_path / "a.png", json=None, save=None)
    rows = [progress((100, 1.0)), progress((200, 1.0), name="b")]
    for row in rows:
        row.samples, row.seconds, row.accuracy = [100], [1.0], [0.5]
    for doubted in (["machine busy: it is", "too short: it was"], []):
        report.report(files, "lenet", rows, doubted, save=lambda path: None)
    assert titles == ["lenet: 2.00 × a (machine busy, too short)", "lenet: 2.00 × a"]


def test_the_load_of_others_is_all_work_without_ones_own(tmp_path, monkeypatch):
    def at(clock, own, work):
        (tmp_path / "proc").mkdir(exist_ok=True)
        user, steal = (int(100 * seconds) for seconds in work)
        (tmp_path / "proc/stat").write_text(f"cpu  {user} 0 0 5000 70 0 0 {steal} 40 0\ncpu0 1 2\n")
        monkeypatch.setattr("tensorbow.cli.machine.time.monotonic", lambda: clock)
        monkeypatch.setattr("tensorbow.cli.machine.time.process_time", lambda: own)

    monkeypatch.setattr("tensorbow.cli.machine.os.sysconf", lambda name: 100)
    at(clock=50.0, own=3.0, work=(20, 1))
    load = Load(tmp_path)
    # In ten seconds 17 seconds of work, one of them the host's, and 12 of them this process's.
    at(clock=60.0, own=15.0, work=(36, 2))
    assert load.others() == pytest.approx(0.5)


def test_nothing_is_said_of_the_load_where_the_system_does_not_say(tmp_path):
    assert Load(tmp_path).others() == 0
