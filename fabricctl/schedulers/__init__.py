"""Schedulers that can say whether a node is in use, and keep new jobs off it; found by name."""
