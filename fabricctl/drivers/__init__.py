"""What is known of each kind of NIC and switch. Found by name."""
