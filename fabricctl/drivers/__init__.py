"""Drivers for NICs and switches, and the readers of Linux tools that several of them share.

``nic/<name>`` and ``switch/<name>`` are found by their place; the modules beside them read one tool each
(``dcb``, ``netdev``, ``verbs``, ``lldp``, ``host``). ``docs/writing-a-driver.md`` says how to add one.
"""
