"""Late work is read with one statement, however many targets have it."""

from datetime import timedelta
from typing import Any

import pytest

from duly.ports import LateWork
from tests.stores.store_probe import START, StoreProbe

pytestmark = pytest.mark.requirement("D12")
MINUTE = timedelta(minutes=1)


async def test_late_work_is_one_statement_for_any_number_of_targets(
    probe: StoreProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(40):
        await probe.deliver(target=f"work{n}", due_at=START + timedelta(seconds=n))
    probe.clock.advance(3600)
    statements: list[str] = []
    database_class = type(probe.store.database)
    for name in ("fetch", "fetch_named", "fetch_batch"):
        original = getattr(database_class, name)

        def count(
            self: Any, statement: str, *more: Any, original: Any = original, **given: Any
        ) -> Any:
            statements.append(statement)
            return original(self, statement, *more, **given)

        monkeypatch.setattr(database_class, name, count)
    assert await probe.store.agenda.late_work(MINUTE) == LateWork(40, START)
    assert len(statements) == 1
