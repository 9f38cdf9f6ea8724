"""Builds the native runtime with CMake and Ninja against the installed TensorFlow."""

import os
import pathlib
import runpy
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

SOURCE = pathlib.Path(__file__).parent.resolve()
sys.path.insert(0, str(SOURCE / "tools"))
import installed_tensorflow  # noqa: E402

TENSORFLOW = installed_tensorflow.find()
VERSION = runpy.run_path(str(SOURCE / "tensorbow" / "version.py"))["__version__"]


class CleanBuild(build_py):
    """Copies the Python files, without leftovers of an earlier build."""

    def run(self) -> None:
        if not self.editable_mode:
            shutil.rmtree(pathlib.Path(self.build_lib) / "tensorbow", ignore_errors=True)
        super().run()


class CMakeBuild(build_ext):
    """Runs CMake; its libraries go into the package, next to the Python files."""

    def build_extension(self, ext: Extension) -> None:
        if not installed_tensorflow.is_supported(TENSORFLOW):
            sys.exit(installed_tensorflow.refusal(TENSORFLOW))
        # The folder in which setuptools looks for the module: the package in the future wheel
        # or, for an editable install, a copy of it from which it takes only the module.
        packages = {pathlib.Path(self.get_ext_fullpath(ext.name)).parent.resolve()}
        editable = self.inplace or self.editable_mode
        # An editable install keeps it in the source tree, so that only changed files are
        # compiled again; `make wheel` packs the same objects.
        work = SOURCE / "build" / "release" if editable else pathlib.Path(self.build_temp)
        work = pathlib.Path(os.environ.get("TENSORBOW_BUILD", work))
        if editable:
            packages.add(SOURCE / "tensorbow")
        work.mkdir(parents=True, exist_ok=True)
        configure = [
            *("cmake", "-S", str(SOURCE), "-B", str(work.resolve()), "-G", "Ninja"),
            "-DTENSORBOW_WITH_TENSORFLOW=ON",  # the core tests may have begun without
            f"-DPython_EXECUTABLE={sys.executable}",
        ]
        ninja = shutil.which("ninja")
        if ninja:  # an earlier build's may have been in an environment that is gone
            configure.append(f"-DCMAKE_MAKE_PROGRAM={ninja}")
        subprocess.run(configure, check=True)
        subprocess.run(["cmake", "--build", str(work)], check=True)
        # Users who install a package do not debug it.
        strip = [] if editable else ["--strip"]
        for package in packages:
            install = ["cmake", "--install", str(work), "--prefix", str(package.parent), *strip]
            subprocess.run(install, check=True)


setup(
    version=installed_tensorflow.version_for(VERSION, TENSORFLOW),
    install_requires=installed_tensorflow.dependencies(TENSORFLOW),
    ext_modules=[Extension("tensorbow._native", sources=[])],
    cmdclass={"build_ext": CMakeBuild, "build_py": CleanBuild},
)
