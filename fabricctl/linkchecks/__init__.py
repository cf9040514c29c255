"""Checks of links and hosts, one module each; found by name."""
