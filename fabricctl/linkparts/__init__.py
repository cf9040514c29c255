"""What several link checks share: the ends of a link, what rose, what a node's hardware and launchers are."""
