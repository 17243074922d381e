"""docs/client.md: every program on the page prints the output on the page."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_every_program_has_its_output() -> None:
    assert len(PROGRAMS) == PAGE.read_text().count("```python") == 4


@pytest.mark.requirement("S1", "C10")
@pytest.mark.parametrize(("program", "output"), PROGRAMS, ids=["calls", "bulk", "events", "errors"])
def test_each_program_prints_its_output(url: str, program: str, output: str) -> None:
    printed = io.StringIO()
    names: dict[str, Any] = {"__name__": "__main__"}
    with redirect_stdout(printed):
        exec(compile(program.replace("http://127.0.0.1:8787", url), PAGE.name, "exec"), names)
    assert printed.getvalue() == output
