"""How to call duly from this shell, for suggested commands."""

from __future__ import annotations

import os
import shlex
import shutil
import sys


def called() -> str:
    """`duly` if the shell finds it, else a command that works in any folder."""
    if shutil.which("duly"):
        return "duly"
    name = sys.argv[0]
    if os.path.basename(name) == "duly":
        return shlex.quote(os.path.abspath(name))
    return f"{shlex.quote(sys.executable)} -m duly"
