"""A stand-in for pyverbs without RDMA: processes that share a folder write into each other's memory.

``FAKE_FABRIC`` names the folder, ``FAKE_LOSS`` the fraction of packets that unreliable connections lose,
``FAKE_MEMLOCK`` the largest memory that can be registered, in bytes; ``FAKE_STATUS`` (``12@5``) the status of
the fifth request of each queue pair, ``FAKE_DELAY`` how often a queue is looked at before a completion shows,
``FAKE_INLINE`` the longest message within a request, ``FAKE_READS`` the READs at once that the device can;
``FAKE_PRINT`` is printed when imported.
"""

import os

if "FAKE_PRINT" in os.environ:
    os.write(1, os.environ["FAKE_PRINT"].encode() + b"\n")
