"""Settings of the row types' tests before TensorFlow is imported."""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# tests/row_types/capture.py trains networks of benchmarks/networks.py.
sys.path.append(str(pathlib.Path(__file__).parents[2] / "benchmarks"))
