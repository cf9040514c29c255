"""What runs on a node, under the node's own Python (3.9 or newer): standard library and pyverbs only."""
