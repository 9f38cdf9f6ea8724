"""`tensorbow train`: trains classifiers, alone or against stock TensorFlow."""
