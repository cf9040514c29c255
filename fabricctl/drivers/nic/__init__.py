"""NIC drivers, one folder each."""
