# ruff: noqa: ARG002  the names are those of pyverbs
import os
from pathlib import Path
from types import SimpleNamespace

from pyverbs.pyverbs_error import PyverbsRDMAError


class Context:
    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = Path(os.environ["FAKE_FABRIC"])
        if name == "broken0":
            raise PyverbsRDMAError("Failed to open device broken0", 5)

    def query_port(self, number: int) -> SimpleNamespace:
        state = int(os.environ.get("FAKE_STATE", "4"))
        return SimpleNamespace(state=state, lid=7, active_mtu=int(os.environ.get("FAKE_MTU", "5")))

    def query_device(self) -> SimpleNamespace:
        reads = int(os.environ.get("FAKE_READS", "16"))
        return SimpleNamespace(max_qp_rd_atom=reads, max_qp_init_rd_atom=reads)
