"""The probe ``read_bandwidth``: what it measures is said in ``spec.py``."""

from __future__ import annotations

from fabricctl.plugin.bandwidth import BandwidthProbe
from fabricctl.plugin.goodput import Operation
from fabricctl.probes.read_bandwidth import spec

PLUGIN = BandwidthProbe(spec.NAME, spec.MEASURES, Operation.READ)
