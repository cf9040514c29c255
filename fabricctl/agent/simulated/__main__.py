"""``python3 -m fabricctl.agent.simulated``: play agents until standard input ends."""

from __future__ import annotations

from fabricctl.agent.simulated.host import main

if __name__ == "__main__":
    main()
