"""The roles of a process: some need a database that several processes can share."""

import pytest

from tests.surfaces.processes import Home


@pytest.mark.requirement("S1", "D14")
@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--role", "api"), "role: a SQLite file belongs to one process"),
        (("--processes", "2"), "processes: a SQLite file belongs to one process"),
        (("--role", "cook"), "role: 'cook' from flag is not valid; give some of api, worker and"),
    ],
)
def test_roles_that_sqlite_does_not_allow_are_refused_before_the_file_is_created(
    sqlite_home: Home, flags: tuple[str, str], problem: str
) -> None:
    done = sqlite_home.process("serve", "--port", "0", *flags)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {problem}")
    assert not (sqlite_home.folder / "duly.db").exists()
