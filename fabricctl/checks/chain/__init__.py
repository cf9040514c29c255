"""The chain from DSCP to ECN is unbroken on every port.

RDMA packets carry the lossless class's DSCP; that gives a priority, that a traffic class, and PFC and ECN
must act on just that one.

Offline, passes if every step leads to the next and congestion notification (CNP) has a class of its own.
Fails if a step leads elsewhere: the DSCP to another priority than the policy's, a PFC priority that shares
its traffic class or that no DSCP leads to, PFC that leaves out the lossless class, CNPs in a class that PFC
can pause, ECN without a lossless class, a CNP class or NICs that heed it, Kmin not below Kmax. Unknown if
there is no port, or if a port's speed is not known and the ECN profile hangs on it. PFC off, ECN off and
InfiniBand are valid policies.

With readings, the same is followed through what each port that was read really holds, with what only a
device can show: trust, buffers with headroom on just the PFC priorities, every further link of the chain that
the switch's driver knows, a strict CNP queue, Kmax below the point at which the port pauses (where the switch
knows it), Kmin and Pmax that are not 0 unless they are meant to be, nothing lossless that the policy does not
name, RDMA sent as RoCE v2 with the lossless DSCP (and with ECN bits that let switches mark it, where they
are to), a NIC's own idea of RDMA's class, CNPs sent in the policy's class, and NICs that slow down where
switches mark. Fails at each break that was read, unknown where a value is missing. A setting of what a NIC
sends that the NIC does not have stays out.
"""

from __future__ import annotations

from collections.abc import Mapping

from fabricctl.checks.chain import meant, read
from fabricctl.model.fabric import Fabric
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import Policy
from fabricctl.model.reading import DeviceReading
from fabricctl.model.verdict import Finding, Outcome

NAME = "chain"


class Chain:
    """Follows the RDMA traffic through each port: as it is meant, or as it was read."""

    name = NAME

    def judge(
        self,
        fabric: Fabric,
        policy: Policy,
        intents: Mapping[PortId, PortIntent],
        readings: Mapping[str, DeviceReading] | None,
    ) -> tuple[Finding, ...]:
        """Return one finding a port, or one for each break of it, in inventory order."""
        ports = [
            port.id
            for device in fabric.devices
            for port in device.ports
            if readings is None or device.name in readings
        ]
        if not ports:
            what = "the inventory has no ports: nothing was followed"
            advice = "add fabric_ports"
            if readings is not None:
                what, advice = "no port was read: nothing was followed", "read the devices"
            return (Finding(NAME, "fabric", Outcome.UNKNOWN, what, next_step=advice),)
        if readings is None:
            return tuple(meant.port(port, policy, intents.get(port)) for port in ports)
        marks = read.marks(policy, readings)
        found = [read.port(port, fabric, policy, intents, readings, marks=marks) for port in ports]
        return tuple(finding for findings in found for finding in findings)


PLUGIN = Chain()
