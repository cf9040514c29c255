"""Checks of links and hosts."""
