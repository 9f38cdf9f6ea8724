"""`tensorbow launch`: hosts on one machine, their output, and how they end."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from tensorbow import cli

PRINTS = """
import json, os, sys
config = json.loads(os.environ["TF_CONFIG"])
print(config["task"]["index"], len(config["cluster"]["worker"]), sys.argv[1:])
print(len(os.sched_getaffinity(0)), "cores", file=sys.stderr)
"""
# Host 1 fails, the others would go on for a minute; a file counts how often it has failed.
FAILS = """
import json, os, pathlib, sys, time
print("pid", os.getpid(), flush=True)
if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
    failures = pathlib.Path(sys.argv[1])
    failures.write_text(failures.read_text() + "x" if failures.exists() else "x")
    sys.exit(3 if len(failures.read_text()) <= int(sys.argv[2]) else 0)
failures, end = pathlib.Path(sys.argv[1]), time.monotonic() + 60
while len(failures.read_text() if failures.exists() else "") <= int(sys.argv[2]):
    assert time.monotonic() < end
    time.sleep(0.01)
"""


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "script.py"
        path.write_text(text)
        return str(path)

    return write


def ended(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_every_host_gets_its_place_its_cores_and_the_arguments(script, capfd):
    assert cli.main(["launch", "--hosts", "2", script(PRINTS), "--steps", "3"]) == 0
    lines = capfd.readouterr().out.splitlines()
    cores = len(os.sched_getaffinity(0))
    for host in range(2):
        assert f"[host {host}] {host} 2 ['--steps', '3']" in lines
        (mine,) = re.findall(rf"^\[host {host}\] (\d+) cores$", "\n".join(lines), re.M)
        assert int(mine) == (len(range(host, cores, 2)) if cores > 1 else 1)
    assert len(os.sched_getaffinity(0)) == cores


@pytest.mark.parametrize("asked", [True, False])
def test_the_log_of_tensorflow_is_shown_if_it_is_asked_for(asked, script, capfd, monkeypatch):
    log = "I0000 00:00:1795834548.462353   13743 port.cc:153] oneDNN custom operations are on."
    program = f"import os\nprint({log!r})\nprint('level', os.environ['TF_CPP_MIN_LOG_LEVEL'])\n"
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    if asked:
        monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    assert cli.main(["launch", "--hosts", "1", script(program + "print('I0000 too')")]) == 0
    lines = [line.removeprefix("[host 0] ") for line in capfd.readouterr().out.splitlines()]
    assert lines == ([log, "level 0"] if asked else ["level 3"]) + ["I0000 too"]


def test_the_first_failure_ends_the_others(script, tmp_path, capfd):
    program = script(FAILS)
    status = cli.main(["launch", "--hosts", "3", program, str(tmp_path / "failures"), "9"])
    assert status == 3
    said = capfd.readouterr()
    assert "tensorbow launch: host 1: exit status 3\n" in said.err
    pids = [int(pid) for pid in re.findall(r"pid (\d+)", said.out)]
    assert 1 <= len(pids) <= 3
    assert all(ended(pid) for pid in pids)


def test_an_elastic_host_starts_again_alone(script, tmp_path, capfd):
    arguments = [script(FAILS), str(tmp_path / "failures"), "2"]
    command = ["launch", "--hosts", "3", "--elastic", "--max-restarts", "5", *arguments]
    assert cli.main(command) == 0
    said = capfd.readouterr()
    assert re.findall(r"host (\d): exit status 3; starting it again \((\d) more\)", said.err) == [
        ("1", "4"),
        ("1", "3"),
    ]
    pids = re.findall(r"^\[host (\d)\] pid (\d+)$", said.out, re.M)
    assert sorted(host for host, _ in pids) == ["0", "1", "1", "1", "2"]
    assert all(ended(int(pid)) for _, pid in pids)


def test_elastic_hosts_that_all_fail_end_with_the_first_failure(script, capfd):
    program = script("import os, json, sys; sys.exit(7)")
    assert cli.main(["launch", "--hosts", "2", "--elastic", "--max-restarts", "3", program]) == 7
    assert capfd.readouterr().err.count("starting it again") == 3


def test_all_hosts_start_again_as_often_as_allowed(script, tmp_path, capfd):
    arguments = [script(FAILS), str(tmp_path / "failures"), "2"]
    assert cli.main(["launch", "--hosts", "2", "--max-restarts", "2", *arguments]) == 0
    assert "starting all again (2 more)" in capfd.readouterr().err
    assert (tmp_path / "failures").read_text() == "xxx"


def test_hosts_end_with_the_launcher(script, tmp_path):
    command = [sys.executable, "-m", "tensorbow", "launch", "--hosts", "2"]
    process = subprocess.Popen(
        [*command, script("import os, time\nprint('pid', os.getpid())\ntime.sleep(300)\n")],
        stdout=subprocess.PIPE,
        text=True,
    )
    pids = [int(process.stdout.readline().split()[-1]) for _ in range(2)]
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGINT
    process.stdout.close()
    deadline = time.monotonic() + 10
    while not all(ended(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["here"], "--hosts is missing; wanted: tensorbow launch --hosts 2 "),
        (["here", "--hosts", "2"], "--hosts is missing"),
        (["--hosts", "0", "here"], "--hosts must be at least 1, got 0"),
        (["--hosts", "2", "--max-restarts", "-1", "here"], "--max-restarts must be at least 0"),
        (["--hosts", "2", "nowhere.py"], "there is no file nowhere.py"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message, capsys, script):
    here = script("")
    with pytest.raises(SystemExit):
        cli.main(["launch", *[here if a == "here" else a for a in arguments]])
    assert message in capsys.readouterr().err
