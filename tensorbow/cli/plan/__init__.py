"""`tensorbow plan`: predicts the speed of several hosts."""
