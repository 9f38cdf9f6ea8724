"""Programs of the grammar that once differed from stock, as small as they get.

A failing test of `grammar_test.py` prints a program that can be put here as it is.
"""

import pathlib
import subprocess
import sys

import pytest

from tests.oracle.grammar import long_runs, words
from tests.oracle.grammar.program import Program

RUNS = 60  # all of these differ early

FOUND = {
    "a table looked up by rows and by fed ids": Program(loss="sampled negatives"),
    "a table looked up by rows and by drawn ids": Program(loss="drawn negatives"),
    "stateless noise with a number for each row": Program(layers=("stateless dropout",)),
    "a crash at a rate that is fed to an update by hand": Program(
        optimiser="sgd by hand", rate="fed", loss="sum by a constant", fetches=()
    ),
    "sparse gradients applied in a conditional": Program(layers=("experts",), guard="on a flag"),
    "gradients of given candidates applied in a conditional": Program(
        loss="given candidates", guard="on a flag", fetches=()
    ),
    "a loop whose gradient TensorFlow loses": Program(
        layers=("repeated",),
        states=("metrics.mean_iou",),
        when="before",
        variables="ref",
        flow="v1",
    ),
    "rows that mix, and a step in a conditional": Program(
        loss="first row", guard="on a flag", fetches=()
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_once_differed_is_as_in_a_stock_session(name, request):
    program = FOUND[name]
    if words.is_known(program):
        request.applymarker(pytest.mark.xfail(strict=True, reason="in words.KNOWN"))
    if name.startswith("a crash"):
        _check_in_own_process(program)
    else:
        long_runs.check(program, RUNS)


def _check_in_own_process(program):
    lines = [
        "import tests.oracle.conftest",
        "from tests.oracle.grammar import long_runs",
        "from tests.oracle.grammar.program import Program",
        f"long_runs.check({program!r}, {RUNS})",
    ]
    root = pathlib.Path(__file__).parents[2]
    child = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert child.returncode == 0, child.stderr[-2000:]


def test_whatever_is_known_to_differ_has_a_program_here():
    for differs in words.KNOWN.values():
        assert any(differs(program) for program in FOUND.values())
