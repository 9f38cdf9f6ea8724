"""Programs that copies of a process with TensorFlow execute run as Python runs them."""

import json
import os
import select
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import json, os, sys
print(json.dumps(dict(
    argv=sys.argv, path=sys.path[:1], name=__name__, file=globals().get("__file__"),
    directory=os.getcwd(), cores=sorted(os.sched_getaffinity(0)), given=sys.stdin.read(),
    environment={k: v for k, v in os.environ.items() if k not in ("_", "PWD", "SHLVL", "OLDPWD")},
)))
print("told", file=sys.stderr)
sys.exit(3)
"""
PYTHON = sys.executable
NOW = "import sys; print('tensorflow' in sys.modules)"


@pytest.fixture
def program(tmp_path):
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / "program_of_tests.py"
    path.write_text(PROGRAM)
    return path


@pytest.mark.parametrize("kind", ["script", "-c", "-m"])
def test_a_program_finds_what_it_is_given(warm_python, program, kind):
    command = {
        "script": ["folder/program_of_tests.py", "--a", "b c"],
        "-c": ["-c", PROGRAM, "--a", "b c"],
        "-m": ["-m", "folder.program_of_tests", "--a", "b c"],
    }[kind]
    core = min(os.sched_getaffinity(0))
    found = []
    for python in (PYTHON, sys.executable):
        ended = subprocess.run(
            [python, *command],
            cwd=program.parents[1],
            env=os.environ | {"TENSORBOW_SAYS": "ä"},
            input="given",
            capture_output=True,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )
        assert (ended.returncode, ended.stderr) == (3, "told\n")
        found.append(json.loads(ended.stdout))
    assert found[0] == found[1]
    assert found[1]["cores"] == [core]


def test_programs_find_tensorflow_imported_unless_it_would_start_otherwise(warm_python):
    def imported(**environment):
        ended = subprocess.run(
            [sys.executable, "-c", NOW],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return ended.stdout

    assert imported() == imported(TF_CONFIG="{}") == "True\n"
    assert imported(TF_ENABLE_ONEDNN_OPTS="0") == imported(KERAS_HOME="/nowhere") == "False\n"


def test_an_error_is_told_as_python_tells_it(warm_python):
    command = [sys.executable, "-c", "1 / 0"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.endswith("ZeroDivisionError: division by zero\n")


SAYS_WHO = """
import os, signal
print(os.getpid(), flush=True)
signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("target", ["what was started", "the program"])
def test_signals_end_the_program_and_what_was_started(warm_python, number, target):
    with subprocess.Popen(
        [sys.executable, "-u", "-c", SAYS_WHO], stdout=subprocess.PIPE
    ) as started:
        pid = int(started.stdout.readline())
        assert pid != started.pid
        program = os.pidfd_open(pid)
        os.kill(pid if target == "the program" else started.pid, number)
        assert started.wait(60) == -number
    ended, _, _ = select.select([program], [], [], 60)
    os.close(program)
    assert ended
