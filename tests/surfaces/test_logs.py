"""The log: one line of JSON for whatever was said."""

import json
import subprocess
import sys

import pytest

SAID = """
import logging
from duly.surfaces.cli.logs import configure
configure()
log = logging.getLogger("mine")
log.info("two\\nlines")
log.info("no text: caf\\udce9")
try:
    raise ValueError("caf\\udce9")
except ValueError:
    log.exception("it broke", extra={"facts": {"file": "caf\\udce9"}})
"""


@pytest.mark.requirement("S3")
def test_each_is_one_line_of_json_whatever_characters_it_has() -> None:
    done = subprocess.run([sys.executable, "-c", SAID], capture_output=True, check=True)
    lines = [json.loads(each) for each in done.stderr.splitlines()]
    assert [each["message"] for each in lines] == ["two\nlines", "no text: caf\udce9", "it broke"]
    assert lines[2]["exception"].endswith("ValueError: caf\udce9")
    assert all(each["at"].endswith("Z") for each in lines)
