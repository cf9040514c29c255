"""ARP with several ports in one subnet, and neighbours at the right port."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fabricctl.model.verdict import Outcome

KEY = "ip neighbours"


def say(
    site: Any,
    device: str,
    *,
    rails_in_one_subnet: bool = False,
    neigh: Sequence[Mapping[str, Any]] = (),
    rules: Sequence[Mapping[str, Any]] = (),
    conf: Mapping[str, int] | None = None,
) -> None:
    """Have a node answer in the shapes that ``ip -j`` of iproute2 prints, cut to what is read."""
    n = device[-1]
    second = f"10.10.0.1{n}" if rails_in_one_subnet else f"10.10.1.{n}"
    addr = [
        {"ifname": name, "addr_info": [{"family": "inet", "local": local, "prefixlen": 24}]}
        for name, local in (("eth0", f"10.0.2.{n}"), ("eth1", f"10.10.0.{n}"), ("eth2", second))
    ]
    values = {"all/arp_ignore": 0, "all/arp_announce": 0, "all/arp_filter": 0}
    for name in ("eth1", "eth2"):
        values |= {f"{name}/arp_ignore": 0, f"{name}/arp_announce": 0, f"{name}/arp_filter": 0}
    lines = "".join(f"{name}:{value}\n" for name, value in {**values, **(conf or {})}.items())
    every = [{"priority": 0, "src": "all", "table": "local"}, *rules]
    parts = (
        f"== neigh\n{json.dumps(neigh)}\n\n== addr\n{json.dumps(addr)}\n\n== rule\n{json.dumps(every)}\n\n"
    )
    site.answer(device, KEY, f"{parts}== conf\n{lines}")


def all_say(site: Any, **how: Any) -> None:
    for n in (1, 2, 3, 4):
        say(site, f"node{n}", **how)


def entry(address: str, mac: str, state: str = "REACHABLE", dev: str = "eth1") -> dict[str, Any]:
    return {"dst": address, "dev": dev, "lladdr": mac, "state": [state]}


def test_rails_in_subnets_of_their_own_need_no_setting(site: Any) -> None:
    all_say(site, neigh=[entry("10.10.0.3", "52:54:00:00:03:01")])
    found = site.judge("neighbours")
    assert [(f.outcome, f.subject) for f in found] == [(Outcome.PASS, f"node{n}") for n in (1, 2, 3, 4)]
    assert found[0].what == (
        "no two of its fabric ports are in one subnet; 1 resolved neighbours, all at their own port"
    )


def test_s33_arp_flux_with_two_rails_in_one_subnet_fails_with_the_setting(site: Any) -> None:
    all_say(site, rails_in_one_subnet=True)
    found = [f for f in site.judge("neighbours") if f.outcome is not Outcome.PASS]
    assert [(f.outcome, f.subject, f.culprit) for f in found] == [
        (Outcome.FAIL, f"node{n}", f"node{n}") for n in (1, 2, 3, 4)
    ]
    assert found[0].what == (
        "eth1 and eth2 are both in 10.10.0.0/24, and arp_ignore is 0 on eth1 and eth2, "
        "arp_announce is 0 on eth1 and eth2: one port answers for the other"
    )
    assert found[0].next_step.startswith(
        "on node1: sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2"
    )


def test_s33_settings_for_all_or_for_each_port_pass(site: Any) -> None:
    all_say(site, rails_in_one_subnet=True, conf={"all/arp_ignore": 1, "all/arp_announce": 2})
    assert site.bad("neighbours") == []
    each = {f"{port}/{name}": 2 for port in ("eth1", "eth2") for name in ("arp_ignore", "arp_announce")}
    all_say(site, rails_in_one_subnet=True, conf=each)
    assert site.bad("neighbours") == []
    assert site.judge("neighbours")[0].what.startswith(
        "eth1 and eth2 are in 10.10.0.0/24 and answer for themselves only"
    )


def test_s33_half_of_it_is_not_enough(site: Any) -> None:
    all_say(site, rails_in_one_subnet=True, conf={"all/arp_ignore": 1, "eth1/arp_announce": 2})
    assert site.bad("neighbours")[0][2] == (
        "eth1 and eth2 are both in 10.10.0.0/24, and arp_announce is 0 on eth2: "
        "one port answers for the other"
    )


def test_s33_source_routing_with_arp_filter_passes(site: Any) -> None:
    for n in (1, 2, 3, 4):
        rules = [{"priority": 100, "src": f"10.10.0.{n}", "table": "101"}]
        rules += [{"priority": 100, "src": f"10.10.0.1{n}", "table": "102"}]
        say(site, f"node{n}", rails_in_one_subnet=True, rules=rules, conf={"all/arp_filter": 1})
    assert site.bad("neighbours") == []


def test_s33_a_neighbour_at_another_port_than_its_own_names_both(site: Any) -> None:
    all_say(site)
    say(site, "node1", neigh=[entry("10.10.0.3", "52:54:00:00:03:02")])
    (found,) = [f for f in site.judge("neighbours") if f.outcome is not Outcome.PASS]
    assert (found.outcome, found.subject) == (Outcome.FAIL, "node1/eth1")
    assert found.what == ("node1 has 10.10.0.3 at 52:54:00:00:03:02, which is node3/eth2, not node3/eth1")
    assert (found.measured, found.limit) == ("52:54:00:00:03:02", "52:54:00:00:03:01")


def test_a_neighbour_at_an_address_that_nobody_has_is_unknown(site: Any) -> None:
    all_say(site)
    say(site, "node1", neigh=[entry("10.10.0.3", "52:54:00:00:99:99")])
    assert site.bad("neighbours") == [
        (
            Outcome.UNKNOWN,
            "node1/eth1",
            (
                "node1 has 10.10.0.3 at 52:54:00:00:99:99, which no port of the fabric has; "
                "node3/eth1 has 52:54:00:00:03:01"
            ),
        )
    ]


def test_a_switch_that_answers_for_all_of_them_is_a_proxy(site: Any) -> None:
    all_say(site)
    say(site, "node1", neigh=[entry(f"10.10.0.{n}", "00:00:5e:00:01:01") for n in (2, 3, 4)])
    assert site.bad("neighbours") == []


def test_what_is_not_resolved_now_is_not_judged(site: Any) -> None:
    all_say(site)
    neigh = [
        entry("10.10.0.3", "52:54:00:00:03:02", "STALE"),
        {"dst": "10.10.0.4", "dev": "eth1", "state": ["FAILED"]},
        entry("10.10.0.200", "52:54:00:00:77:77"),
        entry("10.0.2.3", "52:54:00:00:88:88", dev="eth0"),
    ]
    say(site, "node1", neigh=neigh)
    assert site.bad("neighbours") == []


def test_a_node_without_an_answer_is_unknown_and_hides_no_other(site: Any) -> None:
    all_say(site, rails_in_one_subnet=True)
    site.answer("node1", KEY, "sh: 3: ip: not found\n", rc=127)
    site.answer("node2", KEY, "== neigh\n[]\n== addr\n{broken\n== rule\n[]\n== conf\n")
    found = site.bad("neighbours")
    assert [(outcome, subject) for outcome, subject, _ in found] == [
        (Outcome.UNKNOWN, "node1"),
        (Outcome.UNKNOWN, "node2"),
        (Outcome.FAIL, "node3"),
        (Outcome.FAIL, "node4"),
    ]
    assert "the program is not installed" in found[0][2]


def test_settings_that_cannot_be_read_are_unknown(site: Any) -> None:
    all_say(site)
    say(site, "node1", rails_in_one_subnet=True)
    answer = site.seen["node1"].answers[KEY].stdout
    site.answer("node1", KEY, answer.partition("== conf")[0] + "== conf\n")
    assert site.bad("neighbours")[0] == (
        Outcome.UNKNOWN,
        "node1",
        "ARP settings of node1/eth1 are not known",
    )


def test_no_node_answers(site: Any) -> None:
    for name in list(site.seen):
        site.unreachable(name)
    assert [(f.outcome, f.subject) for f in site.judge("neighbours")] == [(Outcome.UNKNOWN, "fabric")]


def test_a_node_without_ipv4_on_its_fabric_ports_passes_for_what_it_is(site: Any) -> None:
    for n in (1, 2, 3, 4):
        site.answer(f"node{n}", KEY, "== neigh\n[]\n== addr\n[]\n== rule\n[]\n== conf\n")
    found = site.judge("neighbours")
    assert {(f.outcome, f.what) for f in found} == {
        (
            Outcome.PASS,
            (
                "none of its fabric ports has an IPv4 address, and ARP is about no other; "
                "0 resolved neighbours, all at their own port"
            ),
        )
    }


def test_an_odd_entry_hides_no_other(site: Any) -> None:
    odd = [entry("nonsense", "52:54:00:00:03:01"), {**entry("10.10.0.4", "52:54:00:00:04:01"), "state": None}]
    all_say(site, conf={"eth1/arp_filter": -1})
    say(site, "node1", neigh=[*odd, entry("10.10.0.3", "52:54:00:00:03:02")])
    assert [(outcome, subject) for outcome, subject, _ in site.bad("neighbours")] == [
        (Outcome.FAIL, "node1/eth1")
    ]
