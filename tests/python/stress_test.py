"""One session, every kind of run at once from a thread of its own.

TENSORBOW_STRESS_SECONDS makes each case longer; 3 without it.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from tests.python import stress_program

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = float(os.environ.get("TENSORBOW_STRESS_SECONDS", "3"))


@pytest.mark.parametrize("learners", [2, 4])
@pytest.mark.parametrize("synchroniser", stress_program.SYNCHRONISERS)
def test_all_kinds_of_runs_at_once_go_on_and_end(synchroniser, learners, tmp_path):
    """On two cores, so that four learners are more than cores. The program ends itself,
    with its threads' stacks, when a thread stops for ever."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.python.stress_program"),
            *(synchroniser, str(learners), str(SECONDS), str(tmp_path)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS + stress_program.PATIENCE_SECONDS + 60,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-20000:]}"
    outcome = json.loads(done.stdout)
    assert outcome["errors"] == {}
    assert min(outcome["counts"].values()) >= stress_program.LEAST_RUNS, outcome
    assert outcome["finite"]
    if synchroniser == "ssgd":
        assert outcome["equal"]
