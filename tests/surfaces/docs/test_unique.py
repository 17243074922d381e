"""The program of docs/unique.md prints what the page says, except for the ids."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.requirement("P7", "S1")
PAGE = (Path(__file__).parents[3] / "docs/unique.md").read_text()
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def test_the_program_prints_what_the_page_says(tmp_path: Path) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    expected = re.findall(r"^\$ python shop.py\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[0]
    (tmp_path / "shop.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "shop.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert len(set(UUID.findall(done.stdout))) == len(set(UUID.findall(expected))) == 1
    assert UUID.sub("ID", done.stdout) == UUID.sub("ID", expected)
