class SGE:
    def __init__(self, addr: int, length: int, lkey: int) -> None:
        self.addr, self.length, self.lkey = addr, length, lkey


class SendWR:
    def __init__(self, wr_id: int, opcode: int, num_sge: int, sg: list[SGE], send_flags: int) -> None:
        assert len(sg) == num_sge == 1
        self.wr_id, self.opcode, self.piece, self.flags = wr_id, opcode, sg[0], send_flags
        self.rkey = self.address = 0

    def set_wr_rdma(self, rkey: int, address: int) -> None:
        self.rkey, self.address = rkey, address


class RecvWR:
    def __init__(self, wr_id: int, num_sge: int, sg: list[SGE]) -> None:
        assert len(sg) == num_sge == 1
        self.wr_id, self.piece = wr_id, sg[0]
