"""One session with every kind of run at once, each from a thread of its own.

TENSORBOW_STRESS_SECONDS makes each case longer; 3 without it.
"""

import os

import pytest

from tests.python import own_process, stress_program

SECONDS = float(os.environ.get("TENSORBOW_STRESS_SECONDS", "3"))


@pytest.mark.parametrize("learners", [2, 4])
@pytest.mark.parametrize("synchroniser", stress_program.SYNCHRONISERS)
def test_all_kinds_of_runs_at_once_go_on_and_end(synchroniser, learners, tmp_path):
    """Uses two cores, so that four learners exceed them. The program ends itself, with its threads'
    stacks, when a thread stops for ever."""
    outcome = own_process.call(
        *(stress_program.execute, synchroniser, learners, SECONDS, str(tmp_path)),
        seconds=SECONDS + stress_program.PATIENCE_SECONDS + 60,
    )
    assert outcome["errors"] == {}
    assert min(outcome["counts"].values()) >= stress_program.LEAST_RUNS, outcome
    assert outcome["finite"]
    if synchroniser == "ssgd":
        assert outcome["equal"]
