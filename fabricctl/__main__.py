"""Run ``python -m fabricctl``."""

from __future__ import annotations

from fabricctl.cli.main import main

main()
