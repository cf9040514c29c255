"""InfiniBand's tools: what to ask of a host with a HCA, and how to read the answers; pure."""
