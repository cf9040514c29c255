"""The probe ``write_pingpong``: what it measures is said in ``spec.py``."""

from __future__ import annotations

from fabricctl.plugin.latency import LatencyProbe
from fabricctl.probes.write_pingpong import spec

PLUGIN = LatencyProbe(spec.NAME, spec.MEASURES, spec.SLOWEST_S)
