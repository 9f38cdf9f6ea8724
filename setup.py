"""Builds the native runtime with CMake and Ninja against the installed TensorFlow."""

import pathlib
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE = pathlib.Path(__file__).parent.resolve()


class CMakeBuild(build_ext):
    """Runs CMake; what it makes goes into the package, next to the Python files."""

    def build_extension(self, ext: Extension) -> None:
        package = pathlib.Path(self.get_ext_fullpath(ext.name)).parent.resolve()
        # Kept in the source tree for an editable install, so that only what changed is
        # compiled again.
        work = SOURCE / "build" / "release" if self.inplace else pathlib.Path(self.build_temp)
        work.mkdir(parents=True, exist_ok=True)
        configure = [
            *("cmake", "-S", str(SOURCE), "-B", str(work.resolve()), "-G", "Ninja"),
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-DCMAKE_INSTALL_PREFIX={package.parent}",
        ]
        subprocess.run(configure, check=True)
        subprocess.run(["cmake", "--build", str(work)], check=True)
        subprocess.run(["cmake", "--install", str(work)], check=True)


setup(
    ext_modules=[Extension("tensorbow._native", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
)
