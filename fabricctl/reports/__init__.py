"""A run as text, JSON and more, one file each. Found by name."""
