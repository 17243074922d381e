"""The dashboard and the rules in `deploy/` use only metrics that exist."""

import json
import re
from pathlib import Path

import pytest

from duly.records.alert import AlertKind
from tests.http.conftest import Client

DEPLOY = Path(__file__).parents[3] / "deploy"
FILES = ("grafana.json", "alerts.yml")
pytestmark = pytest.mark.requirement("S3")


async def metrics(client: Client) -> dict[str, str]:
    """The type of each metric by its name; labelled ones are listed before they have a value."""
    text = (await client.get("/metrics")).text
    return dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))


@pytest.mark.parametrize("file", FILES)
async def test_each_used_metric_exists(client: Client, file: str) -> None:
    known = await metrics(client)
    series = {
        name + suffix
        for name, kind in known.items()
        for suffix in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",))
    }
    # Metrics of a process with an engine are included too: the site has one.
    named = set(re.findall(r"\bduly_\w+", (DEPLOY / file).read_text()))
    assert named
    assert named - series == set()


async def test_each_alert_kind_is_a_label(client: Client) -> None:
    text = (await client.get("/metrics")).text
    kinds = set(re.findall(r'duly_alerts\{kind="(\w+)"\}', text))
    assert kinds == set(AlertKind)


def test_the_dashboard_is_valid_for_grafana() -> None:
    found = json.loads((DEPLOY / "grafana.json").read_text())
    ids = [each["id"] for each in found["panels"]]
    assert sorted(ids) == sorted(set(ids))
    assert all(target["expr"] for panel in found["panels"] for target in panel["targets"])
