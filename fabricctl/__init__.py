"""Set up, prove and guard the RDMA fabric of a GPU cluster."""

__version__ = "0.1.0"
