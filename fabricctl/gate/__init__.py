"""May this job run on these nodes, now? Starts fast and reads no network."""
