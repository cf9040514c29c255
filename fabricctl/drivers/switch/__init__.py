"""Switch drivers, one folder each."""
