"""Schedule, probe, judge, localise, certify."""
