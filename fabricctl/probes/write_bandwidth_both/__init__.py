"""The probe ``write_bandwidth_both``: what it measures is said in ``spec.py``."""

from __future__ import annotations

from fabricctl.plugin.bandwidth import BandwidthProbe
from fabricctl.plugin.goodput import Operation
from fabricctl.probes.write_bandwidth_both import spec

PLUGIN = BandwidthProbe(spec.NAME, spec.MEASURES, Operation.WRITE, on_request=True, both=True)
