"""Foundations of the package: the native runtime, messages to users, checks of arguments."""
