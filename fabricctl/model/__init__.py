"""Frozen values that the stages hand to each other: standard library only, no behaviour of their own."""
