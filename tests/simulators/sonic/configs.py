"""Configurations to begin with: as SONiC's image makes them, and with nothing of QoS at all."""

from __future__ import annotations

from typing import Any

STOCK_TC = {3: 3, 4: 4, 5: 2, 8: 0, 46: 5, 48: 6}
"""What files/build_templates/qos_config.j2 maps; every other DSCP goes to class 1."""


def bare(ports: list[str], model: str = "dynamic", sku: str = "ACS-MSN2700") -> dict[str, Any]:
    """Return a switch without QoS; its buffer pools are there."""
    platform = "x86_64-mlnx_msn2700-r0" if "MSN" in sku else "x86_64-arista_7060_cx32s"
    config: dict[str, Any] = {
        "DEVICE_METADATA": {
            "localhost": {
                "hostname": "leaf1",
                "hwsku": sku,
                "mac": "00:01:02:03:04:05",
                "platform": platform,
                "type": "ToRRouter",
            }
        },
        "PORT": {
            port: {
                "admin_status": "up",
                "alias": f"etp{number}",
                "lanes": str(number),
                "mtu": "9100",
                "speed": "100000",
            }
            for number, port in enumerate(ports, 1)
        },
        "CABLE_LENGTH": {"AZURE": dict.fromkeys(ports, "5m")},
        "BUFFER_POOL": {
            "egress_lossless_pool": {"mode": "dynamic", "size": "13945824", "type": "egress"},
            "egress_lossy_pool": {"mode": "dynamic", "type": "egress"},
            "ingress_lossless_pool": {"mode": "dynamic", "type": "ingress"},
        },
        "BUFFER_PROFILE": {
            "egress_lossless_profile": {"dynamic_th": "7", "pool": "egress_lossless_pool", "size": "0"},
            "egress_lossy_profile": {"dynamic_th": "3", "pool": "egress_lossy_pool", "size": "9216"},
            "ingress_lossy_profile": {"dynamic_th": "3", "pool": "ingress_lossless_pool", "size": "0"},
        },
        "BUFFER_PG": {f"{port}|0": {"profile": "ingress_lossy_profile"} for port in ports},
    }
    if model == "dynamic":
        config["DEVICE_METADATA"]["localhost"]["buffer_model"] = "dynamic"
    return config


def stock(ports: list[str], model: str = "dynamic", sku: str = "ACS-MSN2700") -> dict[str, Any]:
    """Return a switch as ``config qos reload`` leaves it: PFC on 3 and 4, DSCP 26 in class 1, no watchdog."""
    config = bare(ports, model, sku)
    mellanox = "MSN" in sku
    numbers = [str(each) for each in range(8)]
    config |= {
        "DSCP_TO_TC_MAP": {"AZURE": {str(dscp): str(STOCK_TC.get(dscp, 1)) for dscp in range(64)}},
        "TC_TO_PRIORITY_GROUP_MAP": {
            "AZURE": {**dict.fromkeys(numbers, "0"), "3": "3", "4": "4", "7": "7"},
        },
        "TC_TO_QUEUE_MAP": {"AZURE": {each: each for each in numbers}},
        "MAP_PFC_PRIORITY_TO_QUEUE": {"AZURE": {each: each for each in numbers}},
        "SCHEDULER": {
            "scheduler.0": {"type": "DWRR", "weight": "14"},
            "scheduler.1": {"type": "DWRR", "weight": "15"},
        },
        "WRED_PROFILE": {
            "AZURE_LOSSLESS": {
                "ecn": "ecn_all",
                **{
                    f"{colour}_{field}": value
                    for colour in ("green", "yellow", "red")
                    for field, value in (
                        ("min_threshold", "1048576"),
                        ("max_threshold", "2097152"),
                        ("drop_probability", "5"),
                    )
                },
                **{f"wred_{colour}_enable": "true" for colour in ("green", "yellow", "red")},
            }
        },
        "PORT_QOS_MAP": {
            "global": {"dscp_to_tc_map": "AZURE"},
            **{
                port: {
                    "dscp_to_tc_map": "AZURE",
                    "tc_to_pg_map": "AZURE",
                    "tc_to_queue_map": "AZURE",
                    "pfc_to_queue_map": "AZURE",
                    **({"pfc_to_pg_map": "AZURE"} if mellanox else {}),
                    "pfc_enable": "3,4",
                    "pfcwd_sw_enable": "3,4",
                }
                for port in ports
            },
        },
        "QUEUE": {
            f"{port}|{queue}": {"scheduler": "scheduler.1", "wred_profile": "AZURE_LOSSLESS"}
            if queue in {3, 4}
            else {"scheduler": "scheduler.0"}
            for port in ports
            for queue in range(7)
        },
        "BUFFER_QUEUE": {
            f"{port}|{span}": {"profile": f"egress_{'lossless' if span == '3-4' else 'lossy'}_profile"}
            for port in ports
            for span in ("0-2", "3-4", "5-7")
        },
    }
    if mellanox:
        config["PFC_PRIORITY_TO_PRIORITY_GROUP_MAP"] = {"AZURE": {"3": "3", "4": "4"}}
    if model == "dynamic":
        config["BUFFER_PG"] |= {f"{port}|3-4": {"profile": "NULL"} for port in ports}
    return config
