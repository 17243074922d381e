"""The programs of docs/sync.md, run as they are written, on both stores."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.requirement("P2")
PAGE = Path(__file__).parents[3] / "docs" / "sync.md"
IN_FLASK = "import shop; print(shop.app.test_client().post('/users/Ada').status_code)"
IN_DJANGO = """
import django
from django.conf import settings
settings.configure(ALLOWED_HOSTS=["*"])
django.setup()
from django.test import RequestFactory
import views
print(views.register(RequestFactory().post("/users/Ada"), "Ada").status_code)
"""
PROGRAMS = {
    "script": ("import script", ["pending 2", "cancelled 2 of 2"]),
    "order": ("import order; print(len(order.app.sync.list()))", ["1"]),
    "flask": (IN_FLASK, ["202"]),
    "django": (IN_DJANGO, ["202"]),
    "plain handler": ("import tasks", ["order 7 is on its way"]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_what_it_should(name: str, tmp_path: Path, database_url: str) -> None:
    found = re.findall(r"^```python\n# (\S+)\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert len(found) == len(PROGRAMS)
    for file, code in found:
        (tmp_path / file).write_text(code)
    program, expected = PROGRAMS[name]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "DULY_DATABASE": database_url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout.splitlines(), done.returncode) == (expected, 0), done.stderr
