"""How duly is called from here, for commands that are proposed."""

from __future__ import annotations

import os
import shutil
import sys


def called() -> str:
    """Its name, if the shell finds it by that; else how it was called."""
    if shutil.which("duly"):
        return "duly"
    name = sys.argv[0]
    return name if os.path.basename(name) == "duly" else f"{sys.executable} -m duly"
