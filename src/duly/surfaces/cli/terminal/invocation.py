"""How to call duly from this shell, for suggested commands."""

from __future__ import annotations

import os
import shutil
import sys


def called() -> str:
    """`duly` if the shell finds it, else how this process was called."""
    if shutil.which("duly"):
        return "duly"
    name = sys.argv[0]
    return name if os.path.basename(name) == "duly" else f"{sys.executable} -m duly"
