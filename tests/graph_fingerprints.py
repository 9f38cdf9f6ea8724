"""Hashes of the graphs that learners execute in the tests and benchmark networks.

    python tests/graph_fingerprints.py hashes.txt [-n 2] [test files]

Compare them before and after a change that must not alter graphs. Each line has a test, and the
hashes of its learner graphs with their feeds and fetches, in order of their values. Without test
files: the programs of tests/programs and the networks of benchmarks/networks.py, two learners
each, and tests of Keras.
"""

import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import networks  # noqa: E402

KERAS = ("ssgd", "steps", "kinds", "batch_norm", "one_learner", "masks", "inputs", "auto")
DEFAULT = [
    "tests/graph_fingerprints.py",
    *(f"tests/python/keras_{kind}_test.py" for kind in KERAS),
]
PROGRAMS = sorted(f.stem for f in (ROOT / "tests" / "programs").glob("[a-z]*.py"))
_RESULTS = "TENSORBOW_FINGERPRINTS"  # a folder, for pytest's workers
_DUMPS = "TENSORBOW_DUMP_GRAPHS"


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_network(name):
    networks.network_session(name, networks.NETWORKS[name].rows, 2)(2)


@pytest.mark.parametrize(
    "name", [p for p in PROGRAMS if p not in ("conftest", "programs_test", "table")]
)
def test_program(name):
    from tests.programs import _harness

    _harness.run(name, seed=1, learners=2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Records the test's hashes; pytest calls it in the workers."""
    kept = os.environ.get(_DUMPS)
    with tempfile.TemporaryDirectory() as dumps:
        os.environ[_DUMPS] = dumps
        try:
            result = yield
        finally:
            if kept is None:
                del os.environ[_DUMPS]
            else:
                os.environ[_DUMPS] = kept
        files = pathlib.Path(dumps).glob("*-learners.txt")
        hashes = {hashlib.sha256(_text(file)).hexdigest()[:16] for file in files}
    with (pathlib.Path(os.environ[_RESULTS]) / str(os.getpid())).open("a") as file:
        file.write(f"{item.nodeid}: {' '.join(sorted(hashes))}\n")
    return result


def _text(file: pathlib.Path) -> bytes:
    """Returns the paragraphs of a dump in order, without names that differ between processes."""
    folder = re.escape(tempfile.gettempdir().encode())
    text = re.sub(folder + rb"[\w/.-]*", b"", file.read_bytes())
    text = re.sub(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", b"", text)  # names of tables
    return b"\n\n".join(sorted(text.split(b"\n\n")))


def main(output: str, *arguments: str) -> int:
    arguments = arguments if any("tests/" in a for a in arguments) else (*arguments, *DEFAULT)
    with tempfile.TemporaryDirectory() as results:
        environment = {**os.environ, _RESULTS: results, "PYTHONPATH": str(ROOT)}
        plugin = ["-p", "tests.graph_fingerprints", "-p", "no:cacheprovider", "-q"]
        command = [sys.executable, "-m", "pytest", *plugin, *arguments]
        failed = subprocess.run(command, cwd=ROOT, env=environment).returncode
        lines = [f.read_text().splitlines() for f in pathlib.Path(results).iterdir()]
    pathlib.Path(output).write_text("\n".join(sorted(sum(lines, []))) + "\n")
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
