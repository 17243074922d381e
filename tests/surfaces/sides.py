"""The two sides of a command: on a store, and through the server in front of it."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.commands import run_command
from tests.support.postgres import ForeignServer, Server
from tests.surfaces.processes import Home, environment
from tests.surfaces.sample_data import HERE, fill_store

MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
PLACE = re.compile(r"<\w+>")
SECRET = re.compile(r"whsec_[A-Za-z0-9+/=]+|duly_[a-z2-7_]+|\b[a-z2-7]{16}\b")
NUMBER = re.compile(
    r'(?<="id":)\d+|(?<=worker )\d+|(?<="late_seconds":)[\d.]+|(?<=late_seconds )[\d.]+'
    r'|(?<="token":)\d+|(?<="timing":)\{[^}]*\}|\d+ ms'
)


RATE = re.compile(r'(?<=_per_second":)[\d.]+|[\d.]+(?= a second)')
BATCH_END = re.compile(r'"finished_at":(null|"MOMENT"),"counted_at":(null|"MOMENT")')
"""A worker finishes a batch that is closed or cancelled: before or after an answer is read."""
PATTERNS = (
    *((MOMENT, "MOMENT"), (ID, "ID"), (SECRET, "SECRET"), (NUMBER, "NUMBER")),
    *((RATE, "RATE"), (BATCH_END, "BATCH END")),
)


@dataclass(frozen=True)
class Done:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def all(self) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        return self.code, self.out, self.err

    @property
    def document(self) -> Any:
        """What a command printed with --json; it has to have succeeded."""
        assert self.code == 0, self.err
        return json.loads(self.out)

    def plain(self, *names: str) -> tuple[int, str, str]:
        """The same with placeholders for what differs: moments, ids, secrets, names."""
        return self.code, with_placeholders(self.out, names), with_placeholders(self.err, names)


def with_placeholders(text: str, names: Sequence[str]) -> str:
    """The text with placeholders for the values that differ between two runs."""
    # The width of a column depends on its content.
    text = re.sub(r" +", " ", text)
    for pattern, word in PATTERNS:
        text = pattern.sub(word, text)
    for name in names:
        text = text.replace(name, "NAME")
    return text


def command(*arguments: str, environ: Mapping[str, str]) -> Done:
    """Run a command of `duly` in this process, with that environment."""
    done = run_command(*arguments, environ=environment(environ))
    return Done(done.returncode, done.stdout, done.stderr)


@dataclass(frozen=True)
class Sides:
    """A filled store with a server in front of it."""

    home: Home
    url: str
    key: str
    names: Mapping[str, Sequence[str]]
    """Records that exist once for each side: what one side changes, the other still has."""

    def store(self, *arguments: str, side: int = 0) -> Done:
        """Run the command on the store."""
        where = {"DULY_DATABASE": self.home.database, "DULY_EGRESS_ALLOW": HERE}
        return command(*self._named(arguments, side), environ=where)

    def server(self, *arguments: str, side: int = 1, **environ: str) -> Done:
        """Run the command through the server, without a database."""
        where = {"DULY_SERVER": self.url, "DULY_KEY": self.key, **environ}
        return command(*self._named(arguments, side), environ=where)

    def _named(self, arguments: Sequence[str], side: int) -> list[str]:
        return [
            self.names[each[1:-1]][side] if PLACE.fullmatch(each) else each for each in arguments
        ]

    def words(self) -> list[str]:
        """Every name that may differ between the sides, the longest first."""
        words = {word for alike in self.names.values() for word in alike if not word.isdecimal()}
        return sorted(words, key=len, reverse=True)


@contextmanager
def fresh_home(
    store: str, folder: Path, schema: Path, postgres: ForeignServer | Server, template: str
) -> Iterator[Home]:
    """A home with its own database on that store."""
    if store == "sqlite":
        shutil.copyfile(schema, folder / "duly.db")
        yield Home(folder, f"sqlite:///{folder}/duly.db")
        return
    name = f"duly_{uuid.uuid4().hex}"
    yield Home(folder, asyncio.run(postgres.create_database(name, template)))
    asyncio.run(postgres.drop_database(name))


@contextmanager
def both_sides(home: Home) -> Iterator[Sides]:
    """Fill the store of the home, and start a server in front of it that requires a key."""
    names = asyncio.run(fill_store(home))
    key = home.ok("keys", "create", "ops", "--scope", "admin")
    with home.serving(environ={"DULY_EGRESS_ALLOW": HERE}) as server:
        (worker, *_) = home.json("workers")["items"]
        yield Sides(home, server.url, key, names | {"worker": [str(worker["id"])] * 2})
