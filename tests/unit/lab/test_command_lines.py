"""Command lines and scripts: exactly what is run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fabricctl.errors import LabError, UsageError
from fabricctl.lab import boot, fabric, faults, guest, image
from fabricctl.lab.fabric import Shape
from fabricctl.lab.image import Image
from fabricctl.lab.saved import Saved
from fabricctl.lab.state import Fault, Places


def lab(folder: Path = Path("/cache")) -> boot.Lab:
    return boot.Lab(
        where=Places("lab", Path("/state"), folder),
        fabric=fabric.plan(Shape()),
        run=Path("/run/f"),
        image=Image(folder / "image-1"),
        accelerator="tcg",
        nics=8,
        saved=Saved(folder / "saved-8"),
        user_public="ssh-ed25519 AAAA",
    )


def argv(name: str, *, resume: bool = True, folder: Path = Path("/cache")) -> list[str]:
    here = lab(folder)
    return guest.command(boot.machine(here, here.fabric.guest(name), ssh_port=40001, resume=resume))


def test_both_ends_of_a_cable_name_each_others_sockets() -> None:
    node, leaf = " ".join(argv("node2")), " ".join(argv("leaf1"))
    assert (
        "dgram,id=net1,local.type=unix,local.path=/run/f/node2.1,remote.type=unix,remote.path=/run/f/leaf1.2"
        in node
    )
    assert (
        "dgram,id=net2,local.type=unix,local.path=/run/f/leaf1.2,remote.type=unix,remote.path=/run/f/node2.1"
        in leaf
    )


def test_no_guest_reaches_beyond_loopback() -> None:
    words = argv("node1")
    backends = [words[i + 1] for i, word in enumerate(words) if word == "-netdev"]
    assert backends[0] == "user,id=net0,ipv6=off,restrict=on,hostfwd=tcp:127.0.0.1:40001-:22"
    assert {backend.split(",")[0] for backend in backends[1:]} == {"dgram", "hubport"}


def test_all_guests_have_the_same_devices_so_that_one_saved_guest_serves_all() -> None:
    def devices(name: str) -> list[str]:
        words = argv(name)
        found = [words[i + 1] for i, word in enumerate(words) if word == "-device"]
        return [",".join(o for o in device.split(",") if not o.startswith("mac=")) for device in found]

    assert devices("node1") == devices("leaf1")
    assert sum("virtio-net-pci" in device for device in devices("node1")) == 9


def test_a_saved_guest_is_read_by_a_quoted_path() -> None:
    words = argv("node1", folder=Path("/it's, here"))
    assert words[-2:] == ["-incoming", "exec:zstd -dcq '/it'\\''s, here/saved-8/memory.zst'"]
    assert "if=none,id=root,format=raw,readonly=on,file=/it's,, here/image-1/root.sqfs" in words
    assert "-incoming" not in argv("node1", resume=False)


def test_a_process_that_is_not_ours_is_never_stopped(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        started = guest.start_time(other.pid)
        assert started is not None
        guest.stop(guest.Process(other.pid, started), tmp_path)
        assert other.poll() is None
        other.kill()
    assert guest.start_time(os.getpid()) is not None
    assert guest.start_time(other.pid) is None


def test_loss_and_delay_on_one_port_become_one_qdisc_each_way() -> None:
    both = (
        Fault("loss", "node1", "eth1", 2),
        Fault("delay", "node1", "eth1", 5, "in"),
        Fault("loss", "node2", "eth1", 50),
    )
    script = faults.netem_script("eth1", both, "node1")
    assert "tc qdisc add dev eth1 root netem limit 100000 loss 2%\n" in script
    assert "tc qdisc add dev in-eth1 root netem limit 100000 loss 2% delay 5ms\n" in script
    assert script.endswith("action mirred egress redirect dev in-eth1")


def test_without_faults_everything_is_taken_away() -> None:
    assert " add " not in faults.netem_script("eth1", (), "node1")


def test_one_way_loss_leaves_the_other_way_alone() -> None:
    script = faults.netem_script("eth1", [Fault("loss", "node1", "eth1", 1, "out")], "node1")
    assert "in-eth1 root" not in script
    assert "clsact\n" not in script.replace("del dev eth1 clsact", "")


def test_loss_on_a_switch_port_is_sent_to_the_other_end() -> None:
    with pytest.raises(UsageError, match="node2 --port eth1"):
        faults.check(fabric.plan(Shape()), Fault("loss", "leaf1", "eth2", 1))


def test_a_port_without_a_cable_is_refused() -> None:
    with pytest.raises(UsageError, match="eth1"):
        faults.check(fabric.plan(Shape()), Fault("mtu", "node1", "eth7", 1400))


def test_pfc_is_restored_as_dcb_printed_it() -> None:
    table = "[false,false,false,true,false,false,false,false]"
    printed = f'{{"pfc_cap":8,"macsec_bypass":false,"delay":0,"prio_pfc":{table}}}'
    assert faults.pfc_words(printed) == "0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off"
    with pytest.raises(LabError):
        faults.pfc_words("")


def test_the_image_takes_what_decides_and_not_where_it_is_made() -> None:
    words = image.command("root", Path("/x/tree.tar"), "http://mirror/debian", ())
    assert words[-3:] == ["trixie", "/x/tree.tar", "http://mirror/debian"]
    assert image.command("root", Path("/x/tree.tar"), "", ())[-1] == "/x/tree.tar"
