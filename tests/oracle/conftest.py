"""Setup of the oracle: v1 graphs, one thread for all stock sessions of the process."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# Makes stock sessions and learners use the same kernels, on any processor.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

import tensorflow as tf

tf.compat.v1.disable_eager_execution()

# The first session of a process fixes the number of threads inside stock operations.
ONE_THREAD = tf.compat.v1.ConfigProto(
    intra_op_parallelism_threads=1, inter_op_parallelism_threads=1
)
tf.compat.v1.Session(graph=tf.Graph(), config=ONE_THREAD).close()
