"""The probe ``send_bandwidth``: what it measures is said in ``spec.py``."""

from __future__ import annotations

from fabricctl.plugin.bandwidth import BandwidthProbe
from fabricctl.plugin.goodput import Operation
from fabricctl.probes.send_bandwidth import spec

PLUGIN = BandwidthProbe(spec.NAME, spec.MEASURES, Operation.SEND, on_request=True)
