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
        # Where setuptools looks for the module: the package in the wheel to be or, for an
        # editable install, a copy of it from which it takes the module alone.
        packages = {pathlib.Path(self.get_ext_fullpath(ext.name)).parent.resolve()}
        editable = self.inplace or self.editable_mode
        # Kept in the source tree for an editable install, so that only what changed is
        # compiled again.
        work = SOURCE / "build" / "release" if editable else pathlib.Path(self.build_temp)
        if editable:
            packages.add(SOURCE / "tensorbow")
        work.mkdir(parents=True, exist_ok=True)
        configure = [
            *("cmake", "-S", str(SOURCE), "-B", str(work.resolve()), "-G", "Ninja"),
            f"-DPython_EXECUTABLE={sys.executable}",
        ]
        subprocess.run(configure, check=True)
        subprocess.run(["cmake", "--build", str(work)], check=True)
        for package in packages:
            install = ["cmake", "--install", str(work), "--prefix", str(package.parent)]
            subprocess.run(install, check=True)


setup(
    ext_modules=[Extension("tensorbow._native", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
)
