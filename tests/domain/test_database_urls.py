"""Database URLs: any password is read back unchanged, and is never shown."""

from urllib.parse import quote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duly.domain.database_urls import _ESCAPE, Address, address, shown

pytestmark = pytest.mark.requirement("S1")

HOSTILE = "/#?@%:[]&=+ ,;\\'\"*~ä漢0a"
passwords = st.text(st.sampled_from(HOSTILE), min_size=1, max_size=12) | st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=20
)
users = st.text(st.sampled_from("abc@/?#%é"), min_size=1, max_size=8)
places = st.sampled_from(
    [
        ("host", None),
        ("host:5432", "name"),
        ("[::1]:5432", "a b"),
        ("a.example:1,b.example:2", "n"),
        ("", "name"),
        ("%2Fvar%2Frun", "x/y"),
    ]
)
parameters = st.sampled_from(
    [(), (("sslmode", "require"),), (("host", "/tmp"), ("options", "-c a=b@c"), ("user", "x@y"))]
)


@given(users, passwords, places, parameters)
@example("me", "p/#?@%:ss", ("host", "name"), (("sslmode", "require"),))
def test_an_encoded_address_is_read_back(
    user: str,
    password: str,
    place: tuple[str, str | None],
    parameters: tuple[tuple[str, str], ...],
) -> None:
    made = Address("postgresql", user, password, *place, parameters)
    assert address(made.encoded) == made
    # A strict parser reads the same.
    assert urlsplit(made.encoded).netloc.rpartition("@")[2] == place[0]


@given(passwords, places, parameters)
@example("100%sure", ("host", "name"), ())
@example("a@b/c?d=e#f", ("host:5432", "name"), (("sslmode", "require"),))
@example("[YOUR-PASSWORD]", ("host", "name"), ())
def test_a_password_without_escapes_is_accepted(
    password: str, place: tuple[str, str | None], parameters: tuple[tuple[str, str], ...]
) -> None:
    if "%" in password and not _ESCAPE.search(password):
        password += "%"  # what looks like an escape is read as one
    hosts, name = place
    path = "" if name is None else f"/{quote(name)}"
    query = "&".join(f"{key}={quote(each)}" for key, each in parameters)
    text = f"postgresql://me:{password}@{hosts}{path}" + (f"?{query}" if query else "")
    assert address(text) == Address("postgresql", "me", password, *place, parameters)


@given(users, passwords.filter(lambda each: len(each) > 4), parameters)
def test_a_password_is_never_shown(
    user: str, password: str, parameters: tuple[tuple[str, str], ...]
) -> None:
    hidden = Address("redis", "u", "***", "h", "0", parameters)
    raw = f"redis://u:{password}@h/0"
    assert shown(Address("redis", "u", password, "h", "0", parameters).encoded) == hidden.shown
    assert shown(raw) == "redis://u:***@h/0"
    assert repr(address(raw)) == "Address('redis://u:***@h/0')"
    given = (("password", password), ("sslpassword", password), ("pwd", password))
    by_parameter = Address("postgresql", None, None, "h", "n", given)
    assert shown(by_parameter.encoded) == ("postgresql://h/n?password=***&sslpassword=***&pwd=***")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("sqlite:////srv/a:b@c/duly.db", "sqlite:////srv/a:b@c/duly.db"),
        ("host=here password=hush", "***"),
        ("http://host:8787/base", "http://host:8787/base"),
        ("redis://:hush@h:6379/0", "redis://:***@h:6379/0"),
        ("postgresql://me:hush@[bad/name", "postgresql://me:***@[bad/name"),
        ("postgres://me@h/n?sslmode=require", "postgres://me@h/n?sslmode=require"),
        ("postgresql+asyncpg://me:hu@sh@h/n", "postgresql+asyncpg://me:***@h/n"),
        ("postgresql://[::1]:5432,b:1,c/n", "postgresql://[::1]:5432,b:1,c/n"),
        ("postgresql://me:hu?sslmode=sh@db/duly", "postgresql://***"),
        ("postgresql://me:hu/sh?sslmode=require", "postgresql://***"),
        ("postgresql://me:12?sslmode=sh@db/duly", "postgresql://***"),
        ("postgresql://me@corp:hu?sslmode=sh@db/duly", "postgresql://***"),
        ("postgresql://me:hush@h/n?user=a@b", "postgresql://me:***@h/n?user=a%40b"),
    ],
)
def test_urls_of_every_kind_can_be_shown(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_a_parameter_may_contain_an_at_sign() -> None:
    found = address("postgresql://host/name?user=me@there&password=a@b+c%20d\n")
    assert (found.hosts, found.user, found.password) == ("host", None, None)
    assert found.parameters == (("user", "me@there"), ("password", "a@b+c d"))
