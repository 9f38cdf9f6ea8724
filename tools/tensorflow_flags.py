"""Prints the flags to compile against the installed TensorFlow, for CMake.

A semicolon-separated list: include directory; library to link; pybind11's include
directory; version; whether it is a CUDA build (ON or OFF); then TensorFlow's own compile
flags without the include directory.
"""

import os
import sys

import installed_tensorflow
import pybind11

found = installed_tensorflow.find()
if found is not None and found.directory not in sys.path:
    sys.path.append(found.directory)  # after the packages that pip has fetched for the build
import tensorflow as tf  # noqa: E402

library_dir = tf.sysconfig.get_lib()
include_dir = tf.sysconfig.get_include()
flags = [f for f in tf.sysconfig.get_compile_flags() if not f.startswith(("-I", "--std", "-std"))]
library = os.path.join(library_dir, "libtensorflow_framework.so.2")
cuda = "ON" if tf.sysconfig.get_build_info()["is_cuda_build"] else "OFF"
print(";".join([include_dir, library, pybind11.get_include(), tf.__version__, cuda, *flags]))
