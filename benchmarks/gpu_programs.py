"""Runs the programs of tests/programs on a GPU: stock sessions, one learner, several.

    python benchmarks/gpu_programs.py [--only NAME …] [--seeds 1 2 3] [--learners 1 2]

Stock TensorFlow and learners are processes of their own: TensorFlow's runtime must stay off the
GPU that learners use. Each process goes through all seeds. A program passes if every process
ends well and the learners' mean quality equals stock's within the noise, or exceeds it. The
noise is the spread of stock's own seeds, at least the tolerance that the program states. Writes
NAME.{json,md} into --results; exits with 1 if a program does not pass.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

from interleave import environment

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.programs._judgement import Quality, names  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
LAST_LINES = 12


def run(name: str, seeds: list[int], learners: int) -> dict[str, Any]:
    """Runs a program in this process, on stock sessions with 0 learners; returns its results."""
    from tests.programs import _harness

    if missing := _harness.missing_packages(name):
        return {"skipped": f"{', '.join(missing)} not installed"}
    quality = _harness.program(name).QUALITY
    values, warnings, trained, devices = [], set(), set(), set()
    for seed in seeds:
        ran = _harness.run(name, seed, learners or None)
        values.append(float(ran.outcome.quality))
        warnings.update(ran.warnings)
        trained.add(ran.learners)
        devices.update(ran.devices)
    return {
        "quality": dataclasses.asdict(quality),
        "values": values,
        "trained by": sorted(trained),
        "devices": sorted(devices),
        "warnings": sorted(warnings),
    }


def in_a_process(name: str, seeds: list[int], learners: int, device: str, seconds: float) -> Any:
    """Runs `run` in a process of its own; returns its output if it failed."""
    job = json.dumps([name, seeds, learners])
    begin = time.time()
    try:
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", __file__, "--job", job],
            env=environment(device),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        last = (error.stderr or b"").decode(errors="replace").splitlines()[-LAST_LINES:]
        return {"failed": f"not done after {seconds} s", "output": last}
    if done.returncode != 0:
        last = done.stderr.splitlines()[-LAST_LINES:]
        return {"failed": f"exit status {done.returncode}", "output": last}
    return dict(json.loads(done.stdout.splitlines()[-1]), seconds=round(time.time() - begin, 1))


def verdict(stock: dict[str, Any], ours: dict[str, Any], device: str) -> str:
    """Returns "as good", or the defect."""
    for found in (stock, ours):
        if "failed" in found:
            return found["failed"] if found is ours else f"stock: {found['failed']}"
    if "skipped" in stock:
        return f"skipped: {stock['skipped']}"
    if not all(device.upper() in where for where in ours["devices"]):
        return f"learners on {ours['devices']}, wanted {device}"
    quality = Quality(**ours["quality"])
    worse_by = quality.worse_by(stock["values"], ours["values"])
    noise = quality.noise(stock["values"])
    return "as good" if worse_by <= noise else f"worse by {worse_by:.3g}, noise {noise:.3g}"


def table(found: dict[str, dict[str, Any]], learners: list[int], device: str) -> list[str]:
    """Returns Markdown: a row for every program."""
    heads = ["program", "metric", "stock"]
    for n in learners:
        heads += [f"{n} learner{'s' if n > 1 else ''}", "verdict", "trained by"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name, by_learners in found.items():
        stock = by_learners["0"]
        cells = [name, stock.get("quality", {}).get("name", "")]
        cells.append(" ".join(f"{value:.3g}" for value in stock.get("values", [])))
        for n in learners:
            ours = by_learners[str(n)]
            cells.append(" ".join(f"{value:.3g}" for value in ours.get("values", [])))
            cells += [verdict(stock, ours, device), "; ".join(ours.get("trained by", []))]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", help="these programs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--learners", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2))
    parser.add_argument("--seconds", type=float, default=120, help="a process may take")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--output", default="gpu_programs", help="name of the results")
    parser.add_argument("--job", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        print(json.dumps(run(*arguments.job)))
        return
    arguments.results.mkdir(parents=True, exist_ok=True)
    file = arguments.results / arguments.output
    wanted = arguments.only or names()
    found: dict[str, dict[str, Any]] = {name: {} for name in wanted}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = {
            pool.submit(
                in_a_process, name, arguments.seeds, n, arguments.device, arguments.seconds
            ): (name, n)
            for name in wanted
            for n in [0, *arguments.learners]
        }
        for job in concurrent.futures.as_completed(jobs):
            name, n = jobs[job]
            found[name][str(n)] = job.result()
            file.with_suffix(".json").write_text(json.dumps(found, indent=1))
            print(f"{name}, {n} learners: {job.result().get('failed', 'done')}", flush=True)
    lines = table(found, arguments.learners, arguments.device)
    file.with_suffix(".md").write_text("# Programs on a GPU\n\n" + "\n".join(lines) + "\n")
    print("\n".join(lines))
    bad = {
        f"{name}, {n} learners": verdict(by_learners["0"], by_learners[str(n)], arguments.device)
        for name, by_learners in found.items()
        for n in arguments.learners
    }
    bad = {
        which: text for which, text in bad.items() if not text.startswith(("as good", "skipped"))
    }
    if bad:
        sys.exit("\n".join(f"{which}: {text}" for which, text in bad.items()))


if __name__ == "__main__":
    main()
