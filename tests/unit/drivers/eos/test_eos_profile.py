"""Profiles: what is rendered is read again as the same, and is what Arista's own generator renders."""

from __future__ import annotations

from typing import Any

import pyavd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricctl.drivers.switch.eos import profile, tree
from fabricctl.drivers.switch.eos.profile import SHARED, UNICAST, Ecn, Profile, Queue

_MODES = st.sampled_from([UNICAST, SHARED])
_ECN = st.builds(Ecn, st.integers(1, 10**7), st.integers(1, 10**8), st.integers(1, 100)).flatmap(
    lambda ecn: _MODES.map(lambda mode: profile.ecn_words(ecn, mode))
)
_SAID = st.sampled_from([None, True, False])
_QUEUES = st.lists(
    st.builds(
        Queue,
        st.integers(0, 7),
        strict=_SAID,
        percent=st.none() | st.integers(1, 100),
        guaranteed=st.none() | st.sampled_from(["percent 1", "100"]),
        ecn=st.none() | _ECN,
        count=st.sampled_from([None, True]),
    ),
    unique_by=lambda queue: queue.number,
    max_size=8,
).map(lambda queues: tuple(sorted(queues, key=lambda queue: queue.number)))
_PROFILES = st.builds(
    Profile,
    trust=st.sampled_from([None, "dscp", "cos", "disabled"]),
    pfc=st.sampled_from([None, True]),
    no_drop=st.sets(st.integers(0, 7)).map(lambda ps: tuple((p, True) for p in sorted(ps))),
    watchdog=st.just(value=True),
    timer=st.none() | st.just("timeout 0.2 polling-interval 0.1 recovery-time 0.4"),
    action=st.sampled_from([None, "drop", "notify-only"]),
    queues=_QUEUES,
    rest=st.sampled_from([(), ("service-policy type qos input X", "mc-tx-queue 1 > no priority")]),
)


def _printed(lines: tuple[str, ...]) -> str:
    """Return rendered lines as a switch would print them: indented, without what closes a section."""
    text, depth = "qos profile X\n", 1
    for line in lines:
        if line == "exit":
            depth -= 1
            continue
        text += f"{'   ' * depth}{line}\n"
        depth += line.split(maxsplit=1)[0].endswith("tx-queue")
    return text


@given(_PROFILES, _MODES)
def test_what_is_rendered_is_read_as_the_same(meant: Profile, mode: str) -> None:
    text = _printed(profile.render(meant, mode))
    found = profile.read(tree.section(tree.parse(text), "qos profile X"), mode)
    assert profile.plain(found) == profile.plain(meant)
    assert profile.digest(found) == profile.digest(meant)


@given(_PROFILES)
def test_a_digest_does_not_depend_on_defaults_that_are_said_or_not(meant: Profile) -> None:
    assert profile.digest(profile.plain(meant)) == profile.digest(meant)
    assert profile.plain(profile.plain(meant)) == profile.plain(meant)


@given(_PROFILES)
def test_what_an_interface_says_holds_before_its_profile(meant: Profile) -> None:
    assert profile.plain(profile.over(Profile(), meant)) == profile.plain(
        Profile(**{**{f: getattr(meant, f) for f in Profile.__slots__}, "rest": ()})
    )
    assert profile.over(meant, Profile()) == meant


@pytest.mark.parametrize(("mode", "weight"), [(UNICAST, {"weight": 0}), (SHARED, {})])
def test_the_text_is_what_the_vendors_generator_renders(mode: str, weight: dict[str, int]) -> None:
    threshold = {"units": "bytes", "min": 150000, "max": 1500000, "max_probability": 100, **weight}
    queues = [
        {"id": 0, "priority": "no priority", "bandwidth_percent": 50},
        {
            "id": 3,
            "priority": "no priority",
            "bandwidth_percent": 50,
            "bandwidth_guaranteed_percent": 1,
            "random_detect": {"ecn": {"count": True, "threshold": threshold}},
        },
        {"id": 6, "priority": "priority strict"},
    ]
    timer = {"timeout": "0.4", "polling_interval": "0.2", "recovery_time": "0.4"}
    structured: dict[str, Any] = {
        "hostname": "leaf1",
        "qos_profiles": [
            {
                "name": "X",
                "trust": "dscp",
                "priority_flow_control": {
                    "enabled": True,
                    "priorities": [{"priority": 3, "no_drop": True}],
                    "watchdog": {"enabled": True, "action": "drop", "timer": timer},
                },
                f"{mode.replace('-', '_')}s": queues,
            }
        ],
    }
    checked = pyavd.validate_structured_config(structured)
    assert not checked.validation_result.violations
    theirs = pyavd.get_device_config(structured)
    meant = Profile(
        trust="dscp",
        pfc=True,
        no_drop=((3, True),),
        watchdog=True,
        timer="timeout 0.4 polling-interval 0.2 recovery-time 0.4",
        action="drop",
        queues=(
            Queue(0, strict=False, percent=50),
            Queue(
                3,
                strict=False,
                percent=50,
                guaranteed=profile.GUARANTEED,
                ecn=profile.ecn_words(Ecn(150_000, 1_500_000, 100), mode),
                count=True,
            ),
            Queue(6, strict=True),
        ),
    )
    section = theirs[theirs.index("qos profile X") :]
    lines = [line for line in section.splitlines() if line.strip() != "!"]
    assert (
        lines[: len(lines) - lines[::-1].index("      priority strict")]
        == _printed(profile.render(meant, mode)).splitlines()
    )


def test_the_lines_of_interface_and_maps_are_the_vendors(world: Any, want: Any) -> None:
    lines = world.goals(want())
    assert lines
    theirs = pyavd.get_device_config(
        {
            "hostname": "leaf1",
            "hardware_counters": {"features": [{"name": "ecn", "direction": "out"}]},
            "ethernet_interfaces": [
                {
                    "name": "Ethernet1/1",
                    "mtu": 9214,
                    "service_profile": "X",
                    "flowcontrol": {"received": "off"},
                }
            ],
            "qos": {
                "map": {
                    "dscp": ["26 to traffic-class 3"],
                    "traffic_class": ["1 to uc-tx-queue 0"],
                }
            },
        }
    ).splitlines()
    for line in (
        "hardware counter feature ecn out",
        "   mtu 9214",
        "   service-profile X",
        "   flowcontrol receive off",
        "qos map dscp 26 to traffic-class 3",
        "qos map traffic-class 1 to uc-tx-queue 0",
    ):
        assert line in theirs
