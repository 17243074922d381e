"""`duly endpoints`: add, list, show and edit endpoints, and refused input."""

from typing import Any

import pytest

from tests.surfaces.processes import Home

URL = "https://example.org/hook"
OWN = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PLAN = {"type": "delays", "seconds": [30.0, 120.0, 600.0]}
HEADERS = ("--header", "Authorization: Bearer hunter2", "-H", "X-Team: 7")


def add(home: Home, *names: str) -> None:
    for name in names:
        home.ok("endpoints", "add", name, URL)


@pytest.mark.requirement("C6")
def test_a_new_secret_is_printed_only_once(home: Home) -> None:
    done = home.duly("endpoints", "add", "billing", URL, *HEADERS)
    secret = done.stdout.strip()
    assert done.returncode == 0
    assert secret.startswith("whsec_")
    assert "billing added; its secret is not shown again" in done.stderr
    assert secret not in done.stderr
    later = [
        home.duly("endpoints", *each)
        for each in (("show", "billing"), ("show", "billing", "--json"), ("list", "--json"))
    ]
    for each in later:
        assert each.returncode == 0
        assert secret.removeprefix("whsec_") not in each.stdout + each.stderr
        assert "hunter2" not in each.stdout
    found = home.json("endpoints", "show", "billing")
    assert found["headers"] == {"Authorization": "***", "X-Team": "7"}
    made = home.json("endpoints", "add", "other", URL)
    assert (made["name"], made["secret"][:6]) == ("other", "whsec_")


@pytest.mark.requirement("C6")
def test_a_given_secret_is_printed_only_as_json(sqlite_home: Home) -> None:
    sqlite_home.write("secret", f"{OWN}\n")
    given = (("a", OWN, ""), ("b", "@secret", ""), ("c", "-", OWN))
    for name, secret, stdin in given:
        done = sqlite_home.duly("endpoints", "add", name, URL, "--secret", secret, stdin=stdin)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{name} added\n", "")
    assert sqlite_home.json("endpoints", "add", "d", URL, "--secret", OWN)["secret"] == OWN


@pytest.mark.requirement("C8", "F9")
def test_an_endpoint_is_shown_with_all_its_fields(home: Home) -> None:
    home.ok(
        "endpoints", "add", "billing", URL, "--description", "Invoices", "--method", "put",
        "--timeout", "5s", "--rate", "50", "--in-flight", "10", *HEADERS,
    )  # fmt: skip
    found = home.json("endpoints", "show", "billing")
    assert found.pop("state_at") <= found.pop("created_at")
    assert found == {
        "name": "billing", "url": URL, "description": "Invoices", "method": "PUT",
        "headers": {"Authorization": "***", "X-Team": "7"}, "timeout": 5.0,
        "rate": 50.0, "in_flight": 10, "limits": None, "retry": PLAN,
        "state": "active", "state_reason": None,
        "circuit": {"state": "closed", "failures": 0, "failing_since": None, "opened_at": None,
                    "probe_at": None},
        "waiting": 0, "under_way": 0, "secrets": [{"sealed_with": None, "signs_until": None}],
        "secrets_problem": None, "version": 1,
    }  # fmt: skip
    output = home.ok("endpoints", "show", "billing")
    for part in (
        "Invoices", f"PUT {URL}", "Authorization: ***, X-Team: 7", "50 a second", "5s",
        "after 30s, after 2m, after 10m, at most 4 attempts", "stored plain",
    ):  # fmt: skip
        assert part in output


def test_a_list_is_ordered_by_name_and_counts_waiting_deliveries(home: Home) -> None:
    add(home, "a", "b", "c")
    home.ok("endpoints", "pause", "b")
    for _ in range(2):
        home.ok("send", "b", "--data", "1")
    first = home.json("endpoints", "list", "--limit", "2")
    second = home.json("endpoints", "list", "--limit", "2", "--after", first["next"])
    found = [
        (each["name"], each["state"], each["waiting"]) for each in first["items"] + second["items"]
    ]
    assert found == [("a", "active", 0), ("b", "paused", 2), ("c", "active", 0)]
    assert second["next"] is None
    done = home.duly("endpoints", "list", "--limit", "2")
    assert "there are more: --after b" in done.stderr
    assert [line.split()[:3] for line in done.stdout.splitlines()[2:]] == [["b", "paused", "2"]]


@pytest.mark.requirement("C8")
def test_an_edit_changes_only_the_given_fields_and_can_remove_limits(home: Home) -> None:
    home.ok("endpoints", "add", "billing", URL, "--rate", "5", "--in-flight", "3", *HEADERS)
    edit = ("endpoints", "edit", "billing")
    assert home.ok(*edit, "--timeout", "7s", "-H", "x-team: 8") == "billing edited, version 2"
    found = home.json("endpoints", "show", "billing")
    assert (found["timeout"], found["rate"], found["in_flight"]) == (7.0, 5.0, 3)
    assert found["headers"] == {"Authorization": "***", "x-team": "8"}
    found = home.json(
        *edit, "--no-rate", "--no-in-flight", "--no-header", "authorization",
        "--url", "https://example.org/new", "--method", "PATCH", "--description", "new",
    )  # fmt: skip
    assert (found["timeout"], found["rate"], found["in_flight"]) == (7.0, None, None)
    assert (found["headers"], found["url"]) == ({"x-team": "8"}, "https://example.org/new")
    assert (found["method"], found["description"], found["version"]) == ("PATCH", "new", 3)
    assert "any number" in home.ok("endpoints", "show", "billing")


async def test_every_change_is_audited_without_secrets(home: Home) -> None:
    secret = home.ok("endpoints", "add", "billing", URL)
    home.ok("endpoints", "edit", "billing", "-H", "X-Token: hunter2")
    home.ok("endpoints", "pause", "billing", "--reason", "holidays")
    home.ok("endpoints", "resume", "billing")
    newer = home.ok("endpoints", "rotate", "billing")
    home.ok("endpoints", "remove", "billing", "--yes")
    shown = home.json("audit")["items"]
    verbs = ["removed", "rotated", "resumed", "paused", "edited", "added"]
    assert [each["action"] for each in shown] == [f"endpoint.{verb}" for verb in verbs]
    assert {each["actor"] for each in shown} == {"cli"}
    assert shown[3]["detail"] == {"reason": "holidays"}
    text = home.ok("audit", "--json")
    assert not any(each in text for each in (secret, newer, "hunter2"))


BAD: list[tuple[tuple[str, ...], str]] = [
    (("add", "b b", URL), "name: 'b b' is not a name"),
    (("add", "b", "ftp://example.org"), "url: 'ftp://example.org' cannot be read"),
    (("add", "b", "http://10.0.0.1/"), "url: 10.0.0.1 is not for the public"),
    (("add", "b", URL, "--rate", "0"), "rate: 0 is not from 0.001"),
    (("add", "b", URL, "--rate", "fast"), "--rate"),
    (("add", "b", URL, "--in-flight", "0"), "in_flight: 0 is not a whole number"),
    (("add", "b", URL, "--timeout", "90s"), "timeout: 90 is not from 1 to 60"),
    (("add", "b", URL, "--method", "LIST"), "method: 'LIST' is none of"),
    (("add", "b", URL, "-H", "hunter2"), "header: one has no colon"),
    (("add", "b", URL, "-H", "webhook-id: 1"), "headers: 'webhook-id' is set by duly"),
    (("add", "b", URL, "--secret", "whsec_aHVudGVyMg"), "secret: its key has 7 bytes"),
    (("add", "b", URL, "--secret", "@none"), "secret: 'none' cannot be read"),
    (("add", "b"), "URL"),
    (("edit", "billing"), "options: there is nothing to change"),
    (("edit", "billing", "--rate", "5", "--no-rate"), "rate: set it or remove it"),
    (("edit", "billing", "--in-flight", "5", "--no-in-flight"), "in_flight: set it or remove"),
    (("edit", "billing", "--no-header", "x"), "no_header: it has no header 'x'"),
    (("edit", "billing", "--url", "example.org"), "url: 'example.org' cannot be read"),
    (("pause", "billing", "--reason", ""), "reason: it has 0 bytes"),
    (("rotate", "billing", "--overlap", "31d"), "overlap: give a time up to 30 days"),
    (("rotate", "billing", "--overlap", "soon"), "overlap: 'soon' is no duration"),
    (("reseal",), "name: give an endpoint's name, or --all"),
    (("reseal", "billing", "--all"), "name: give an endpoint's name, or --all"),
    (("reseal", "--all"), "secret_key: it is not set"),
    (("test", "billing", "--data", "{"), "payload: it is not valid JSON"),
    (("recover", "billing"), "--since"),
    (("recover", "billing", "--since", "yesterday"), "since: 'yesterday' is no duration"),
    (("recover", "billing", "--since", "2026-01-01T00:00"), "since: '2026-01-01T00:00' has no"),
    (("recover", "billing", "--since", "99999w"), "since: "),
    (("recover", "billing", "--since", "1h", "--rate", "0"), "rate: 0 is not from"),
    (("remove", "billing"), "yes: there is no terminal"),
    (("list", "--limit", "0"), "limit: 0 is not from 1"),
]


@pytest.fixture(scope="module")
def billing(tmp_path_factory: pytest.TempPathFactory) -> Home:
    folder = tmp_path_factory.mktemp("billing")
    home = Home(folder, f"sqlite:///{folder}/duly.db")
    add(home, "billing")
    return home


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_refused_with_code_2_and_names_the_field(
    billing: Home, arguments: tuple[str, ...], message: str
) -> None:
    done = billing.duly("endpoints", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "hunter2" not in done.stderr


def test_refused_commands_changed_nothing(billing: Home) -> None:
    (found,) = billing.json("endpoints", "list")["items"]
    assert (found["name"], found["version"]) == ("billing", 1)


UNKNOWN: list[Any] = [
    ("show", "nobody"), ("pause", "nobody"), ("resume", "nobody"), ("rotate", "nobody"),
    ("test", "nobody"), ("remove", "nobody", "--yes"), ("recover", "nobody", "--since", "1h"),
    ("edit", "nobody", "--rate", "1"), ("edit", "nobody", "-H", "A: 1"),
]  # fmt: skip


@pytest.mark.parametrize("command", UNKNOWN, ids=" ".join)
def test_an_unknown_endpoint_is_code_3(billing: Home, command: tuple[str, ...]) -> None:
    done = billing.duly("endpoints", *command)
    assert (done.returncode, done.stdout) == (3, "")
    assert "no endpoint 'nobody'; duly endpoints list" in done.stderr


def test_a_name_that_is_taken_is_code_5(billing: Home) -> None:
    done = billing.duly("endpoints", "add", "billing", URL)
    assert (done.returncode, done.stdout) == (5, "")
    assert "exists already; edit it" in done.stderr
