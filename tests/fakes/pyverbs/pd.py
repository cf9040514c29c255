class PD:
    def __init__(self, context: object) -> None:
        self.context = context
