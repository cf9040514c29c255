"""Runs, readings, samples and certificates in one SQLite file; the only user of sqlite3."""
