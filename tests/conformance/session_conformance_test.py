"""TensorFlow's own session tests pass with two learners wherever stock passes.

They need the sources of the installed TensorFlow: set TENSORFLOW_SOURCE to a checkout of
that version (the folder that holds tensorflow/python/client). Without one they are
skipped, because TensorFlow's wheel ships no tests.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
SOURCE = os.environ.get("TENSORFLOW_SOURCE")
CLIENT = pathlib.Path(SOURCE or ".") / "tensorflow" / "python" / "client"

# The number of tests in each file that stock passes (a few more skip themselves). It shows a run
# with the wrong sources.
STOCK_PASSES = {
    "session_test.py": 97,
    "session_list_devices_test.py": 4,
    "session_partial_run_test.py": 23,
}


def outcomes(kind: str, file: str) -> dict[str, str]:
    process = subprocess.run(
        [sys.executable, str(HERE / "run_session_tests.py"), kind, str(CLIENT / file)],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert process.returncode == 0, process.stderr[-4000:]
    sys.stderr.write(process.stderr)
    return json.loads(process.stdout.splitlines()[-1])


@pytest.mark.skipif(SOURCE is None, reason="TENSORFLOW_SOURCE is not set: no TensorFlow sources")
@pytest.mark.parametrize("file", STOCK_PASSES)
def test_passes_wherever_stock_passes(file):
    stock = outcomes("stock", file)
    assert sum(o == "ok" for o in stock.values()) >= STOCK_PASSES[file]
    ours = outcomes("tensorbow", file)
    worse = [test for test, outcome in stock.items() if outcome == "ok" and ours[test] != "ok"]
    assert not worse
