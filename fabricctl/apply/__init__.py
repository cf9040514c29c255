"""From intent and reading to a plan, from a plan to devices, and the proof by reading back."""
