"""Builds a wheel in dist/ for the installed TensorFlow: build_wheel.py [--output DIRECTORY]

The wheel contains the compiled runtime, so that it installs without a compiler. Its platform tag
names the glibc that it needs: the newest one that a library in it refers to, or the one that came
with the libstdc++ it refers to.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable

import build_backend
import installed_tensorflow

# The newest symbols of libstdc++ (GLIBCXX, CXXABI) and libgcc (GCC) in distributions with this
# glibc, as auditwheel's policies for manylinux list them.
POLICIES = {
    (2, 17): {"GLIBCXX": "3.4.19", "CXXABI": "1.3.7", "GCC": "4.8.0"},
    (2, 28): {"GLIBCXX": "3.4.24", "CXXABI": "1.3.11", "GCC": "7.0.0"},
    (2, 31): {"GLIBCXX": "3.4.28", "CXXABI": "1.3.12", "GCC": "7.0.0"},
    (2, 34): {"GLIBCXX": "3.4.29", "CXXABI": "1.3.13", "GCC": "7.0.0"},
    (2, 35): {"GLIBCXX": "3.4.30", "CXXABI": "1.3.13", "GCC": "12.0.0"},
    (2, 39): {"GLIBCXX": "3.4.33", "CXXABI": "1.3.15", "GCC": "14.0.0"},
}
# The libraries that a wheel need not contain, including TensorFlow's, which are loaded before it.
EXTERNAL = re.compile(
    r"libtensorflow_(framework|cc)\.so\.2|lib(c|m|rt|dl|pthread)\.so\.\d|libstdc\+\+\.so\.6|"
    r"libgcc_s\.so\.1|ld-linux-[\w-]+\.so\.\d|libtensorbow\.so"
)


def numbers(version: str) -> tuple[int, ...]:
    """Converts "2.2.5" to (2, 2, 5), for comparisons."""
    return tuple(int(n) for n in version.split("."))


def symbol_versions(readelf: str) -> dict[str, tuple[int, ...]]:
    """Returns, by library, the newest version of its symbols, from `readelf --version-info`."""
    newest: dict[str, tuple[int, ...]] = {}
    for library, version in re.findall(r"Name: (GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+)", readelf):
        newest[library] = max(newest.get(library, ()), numbers(version))
    return newest


def glibc_needed(newest: dict[str, tuple[int, ...]]) -> tuple[int, int]:
    """Returns the glibc of the oldest systems on which such a library loads."""
    for glibc, limits in POLICIES.items():
        if all(newest.get(name, ()) <= numbers(limit) for name, limit in limits.items()):
            return max(glibc, newest.get("GLIBC", (0, 0))[:2])  # type: ignore[return-value]
    raise SystemExit(f"No manylinux policy has symbols as new as {newest}; build elsewhere")


def foreign_libraries(readelf: str) -> list[str]:
    """Returns the libraries that a wheel would have to contain, from `readelf --dynamic`."""
    needed = re.findall(r"\(NEEDED\).*\[([^\]]+)\]", readelf)
    return [name for name in needed if not EXTERNAL.fullmatch(name)]


def _readelf(option: str, libraries: Iterable[pathlib.Path]) -> str:
    command = ["readelf", "--wide", option, *map(str, libraries)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def platform_tag(wheel: pathlib.Path) -> str:
    """Returns the platform that a wheel's libraries need: "manylinux_2_34_x86_64", for example."""
    machine = re.sub(r".*linux_", "", wheel.stem)
    with tempfile.TemporaryDirectory() as directory, zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".so")]
        libraries = [pathlib.Path(archive.extract(name, directory)) for name in names]
        foreign = foreign_libraries(_readelf("--dynamic", libraries))
        if foreign:
            raise SystemExit(f"{wheel.name} would have to bring along {', '.join(foreign)}")
        major, minor = glibc_needed(symbol_versions(_readelf("--version-info", libraries)))
    return f"manylinux_{major}_{minor}_{machine}"


def build(output: pathlib.Path) -> pathlib.Path:
    """Builds and tags the wheel; replaces one of the same name."""
    found = installed_tensorflow.find()
    if not installed_tensorflow.is_supported(found):
        raise SystemExit(installed_tensorflow.refusal(found))
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        wheel = pathlib.Path(directory) / build_backend.build_wheel(directory)
        tag = platform_tag(wheel)
        command = [sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", tag]
        done = subprocess.run([*command, str(wheel)], check=True, capture_output=True, text=True)
        tagged = wheel.with_name(done.stdout.split()[-1])
        return tagged.replace(output / tagged.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    root = installed_tensorflow.ROOT
    parser.add_argument("--output", type=pathlib.Path, default=root / "dist")
    output = parser.parse_args().output.resolve()
    os.chdir(root)
    wheel = build(output)
    with zipfile.ZipFile(wheel) as archive:
        unpacked = sum(file.file_size for file in archive.infolist())
    print(
        f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB, {unpacked / 1e6:.1f} MB installed, for "
        f"TensorFlow {installed_tensorflow.find().version}"
    )


if __name__ == "__main__":
    main()
