"""What runs on the switch itself, under its own Python (3.7 or newer, standard library only).

The controller uses the same modules to read a configuration, so both have one view of CONFIG_DB.
"""
