"""The probe ``send_latency``: what it measures is said in ``spec.py``."""

from __future__ import annotations

from fabricctl.plugin.latency import LatencyProbe
from fabricctl.probes.send_latency import spec

PLUGIN = LatencyProbe(spec.NAME, spec.MEASURES, spec.SLOWEST_S, on_request=True)
