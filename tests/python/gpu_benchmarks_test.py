"""The parts of the GPU's benchmarks that need no GPU: contenders, tables, continuations."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import gpu_checks
import gpu_programs
import gpu_throughput


def events_step(folder, script):
    """Runs `benchmarks/gpu.sh events` with a program instead of gpu_events.cu's."""
    program = folder / "events"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    environment = dict(
        os.environ,
        GPU_EVENTS=str(program),
        STATE=str(folder / "state"),
        OUT=str(folder / "out"),
        XDG_CACHE_HOME=str(folder / "cache"),
    )
    (folder / "state" / "events.done").unlink(missing_ok=True)
    command = [str(ROOT / "benchmarks" / "gpu.sh"), "events"]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=100)
    return done.returncode, folder / "cache" / "tensorbow" / "gpu_events_passed"


def test_waits_are_captured_only_after_the_events_check_has_passed(tmp_path):
    # The reader of the file is tested by tests/cc/captured_waits_test.cc.
    code, passed = events_step(tmp_path, "echo FAILED round 3; exit 1")
    assert code != 0 and not passed.exists()
    code, passed = events_step(tmp_path, "echo driver 13000; echo passed: waits")
    assert code == 0 and passed.read_text() == "driver 13000\n"
    code, passed = events_step(tmp_path, "echo driver 13000; exit 1")
    assert code != 0 and not passed.exists()


def test_every_number_of_learners_is_measured_with_and_without_graphs_and_averaging():
    compared = gpu_throughput.contenders(16, [1, 2], ["off", "on"], "gpu")
    assert [(c.name, c.rows_per_step) for c in compared] == [
        ("tf.Session", 16),
        ("tf.Session, XLA", 16),
        ("1 learner, graphs off", 16),
        ("1 learner, graphs on", 16),
        ("2 learners, SMA, graphs off", 32),
        ("2 learners, no averaging, graphs off", 32),
        ("2 learners, SMA, graphs on", 32),
        ("2 learners, no averaging, graphs on", 32),
    ]
    assert {c.device for c in compared} == {"gpu"}


def test_a_check_that_has_passed_is_not_made_again(tmp_path):
    made = []

    def check(passed):
        made.append(passed)
        return passed, "found"

    gpu_checks.Checks(tmp_path, "gpu").make("good", lambda: check(True))
    gpu_checks.Checks(tmp_path, "gpu").make("bad", lambda: check(False))
    again = gpu_checks.Checks(tmp_path, "gpu")
    again.make("good", lambda: check(True))
    again.make("bad", lambda: check(False))
    assert made == [True, False, False]
    assert json.loads((tmp_path / "checks_gpu.jsonl").read_text().splitlines()[0])["passed"]


def test_weights_of_another_device_do_not_count(tmp_path):
    job = {"model": "lenet", "learners": 2, "iterations": 1, "batch": 1, "cuda_graphs": "on"}
    path = tmp_path / "weights_gpu_lenet_2_on.npz"
    np.savez(path, w=np.zeros(3), devices=np.array(["/device:CPU:0/learner:0"]))
    with pytest.raises(ValueError, match="wanted gpu"):
        gpu_checks.Checks(tmp_path, "gpu").weights("", "gpu", **job)
    np.savez(path, w=np.zeros(3), devices=np.array(["/device:GPU:0/learner:0"]))
    assert set(gpu_checks.Checks(tmp_path, "gpu").weights("", "gpu", **job)) == {"w"}


def test_what_was_not_captured_has_not_passed(tmp_path):
    checks = gpu_checks.Checks(tmp_path, "gpu")
    devices = np.array(["/device:GPU:0/learner:0"])
    file = tmp_path / "weights_gpu_lenet_2_on.npz"
    said = 'cuda_graphs="on": learning tasks are executed op by op'
    np.savez(file, devices=devices, **{"op by op": np.array(said)})
    checks.make("graphs", lambda: checks.same_weights("lenet", 2, "on"))
    assert checks.results["graphs"]["passed"] is None
    assert said in checks.results["graphs"]["found"]


def test_programs_are_judged_by_where_they_ran_and_by_stocks_noise():
    quality = {"name": "accuracy", "higher_is_better": True, "tolerance": 0.02}
    stock = {"quality": quality, "values": [0.9, 0.94], "devices": []}
    ours = dict(stock, values=[0.89, 0.88], devices=["GPU 0: stream 0x1"])
    assert gpu_programs.verdict(stock, ours, "gpu") == "as good"  # by less than .04
    assert "worse by 0.06" in gpu_programs.verdict(stock, dict(ours, values=[0.86]), "gpu")
    assert "wanted gpu" in gpu_programs.verdict(stock, dict(ours, devices=["CPU:0"]), "gpu")
    assert gpu_programs.verdict({"failed": "exit status 1"}, ours, "gpu") == "stock: exit status 1"
    missing = {"skipped": "tf_slim not installed"}
    assert gpu_programs.verdict(missing, missing, "gpu") == "skipped: tf_slim not installed"


def test_weights_are_compared_by_the_way_they_have_gone(tmp_path):
    checks = gpu_checks.Checks(tmp_path, "gpu")

    def write(device, value, graphs, learners=2):
        name = f"weights_{device}_lenet_{learners}_{graphs}.npz"
        values = {"w": np.array([value]), "0 w": np.array([0.0])}
        devices = np.array([f"/device:{device.upper()}:0"])
        np.savez(tmp_path / name, devices=devices, **values)

    write("cpu", 1.0, "default")
    write("cpu", 1.0, "default", learners=0)
    write("gpu", 1.0, "default", learners=0)
    write("gpu", 1.005, "on")
    assert checks.same_weights("lenet", 2, "on")[0]
    write("gpu", 1.02, "off")
    assert not checks.same_weights("lenet", 2, "off")[0]
    write("gpu", 1.01, "default", learners=0)  # stock's differ, too
    assert checks.same_weights("lenet", 2, "off")[0]
    write("gpu", 1.015, "on", learners=1)
    assert checks.as_stock("lenet", "on")[0]
    write("gpu", 1.03, "off", learners=1)
    assert not checks.as_stock("lenet", "off")[0]
