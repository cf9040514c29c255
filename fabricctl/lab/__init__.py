"""The embedded lab: a small fabric of QEMU guests, made, broken and removed on this machine."""
