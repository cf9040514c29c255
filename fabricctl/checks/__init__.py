"""One file a check: intent and reading to findings. Found by name."""
