"""What runs on a node, under the node's own Python (3.9 or newer): standard library and pyverbs only.

The controller starts it over the transport and talks to it in JSON lines on its standard input and output.
It listens on no port, and it ends when its input closes or when it has heard nothing for too long.
"""

from __future__ import annotations

WIRE_VERSION = 2
"""Version of the messages; both ends must have the same."""
