"""The seams: protocols for drivers, checks, probes and reports, and the finder that loads them by name."""
