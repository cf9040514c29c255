# ruff: noqa: ARG002  the names are those of pyverbs
class GID:
    def __init__(self, text: str) -> None:
        self.text = text


class GlobalRoute:
    def __init__(
        self, dgid: GID, sgid_index: int, hop_limit: int, traffic_class: int, flow_label: int
    ) -> None:
        assert hop_limit > 1
        assert 0 <= flow_label < 1 << 20
        self.dgid, self.sgid_index = dgid, sgid_index


class AHAttr:
    def __init__(self, port_num: int, is_global: int, gr: GlobalRoute | None = None, dlid: int = 0) -> None:
        assert bool(gr) == bool(is_global)
        self.gr = gr
