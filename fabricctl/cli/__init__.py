"""Arguments, printing and exit codes."""
