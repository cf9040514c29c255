"""Ways to reach a device: SSH, this machine itself, or recorded replies."""
