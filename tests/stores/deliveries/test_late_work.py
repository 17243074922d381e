"""Late work: one statement however many targets have some, and only what may go."""

from datetime import timedelta
from typing import Any

import pytest

from duly.ports import LateWork
from tests.stores.books import START, Books

pytestmark = pytest.mark.requirement("D12")
MINUTE = timedelta(minutes=1)


async def test_it_is_one_statement_however_many_targets_have_some(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(40):
        await books.deliver(target=f"work{n}", due_at=START + timedelta(seconds=n))
    books.clock.advance(3600)
    asked: list[str] = []
    kinds = type(books.store.database)
    for name in ("fetch", "fetch_named", "fetch_batch"):
        usual = getattr(kinds, name)

        def counted(self: Any, statement: str, *more: Any, usual: Any = usual, **given: Any) -> Any:
            asked.append(statement)
            return usual(self, statement, *more, **given)

        monkeypatch.setattr(kinds, name, counted)
    assert await books.store.agenda.late_work(MINUTE) == LateWork(40, START)
    assert len(asked) == 1
