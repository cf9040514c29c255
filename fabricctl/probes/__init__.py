"""What can be measured between two ports, one folder each. Found by name."""
