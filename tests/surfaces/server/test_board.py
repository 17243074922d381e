"""The shared memory in which the processes of one parent publish their status."""

import os

import pytest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

from duly.surfaces.http.monitoring.shared_metrics import SharedMetrics, merged
from duly.surfaces.process.shared_memory import HEAD, PAGE_BYTES, SharedMemory, Slot
from duly.system import fork

pytestmark = pytest.mark.requirement("S3")


def test_one_process_reads_what_another_wrote() -> None:
    board = SharedMemory(3)

    def child() -> int:
        Slot(board, 2).write(b"from the second")
        return 0

    assert os.waitpid(fork(child), 0)[1] == 0
    assert Slot(board, 1).others() == [b"from the second"]
    assert Slot(board, 2).others() == []
    Slot(board, 3).write(b"third")
    assert Slot(board, 1).others() == [b"from the second", b"third"]


def test_a_cleared_page_is_empty() -> None:
    board = SharedMemory(2)
    board.write(2, b"before it died")
    board.write(2, b"")
    assert Slot(board, 1).others() == []


def test_a_half_written_page_is_ignored() -> None:
    board = SharedMemory(2)
    board.write(2, b"whole and true")
    board._memory[PAGE_BYTES + HEAD.size] ^= 1
    assert board.read(2) == b""
    HEAD.pack_into(board._memory, PAGE_BYTES, 0xFFFFFFFF, 7)
    assert board.read(2) == b""


def test_a_text_that_is_too_long_changes_no_page() -> None:
    board = SharedMemory(2)
    board.write(1, b"short")
    board.write(2, b"neighbour")
    board.write(1, b"x" * (PAGE_BYTES - HEAD.size + 1))
    assert (board.read(1), board.read(2)) == (b"short", b"neighbour")
    longest = b"x" * (PAGE_BYTES - HEAD.size)
    board.write(1, longest)
    assert (board.read(1), board.read(2)) == (longest, b"neighbour")


def test_metrics_of_all_processes_are_in_one_family_each() -> None:
    board = SharedMemory(2)
    one, other = (SharedMetrics(Slot(board, number)) for number in (1, 2))
    counted = CounterMetricFamily("duly_claimed", "Lanes claimed", labels=["process"])
    counted.add_metric(["2"], 7)
    other.publish([counted])
    own = CounterMetricFamily("duly_claimed", "Lanes claimed", labels=["process"])
    own.add_metric(["1"], 5)
    running = GaugeMetricFamily("duly_running", "Under way", value=3)
    claimed, still = merged([own, running, *one.others()])
    assert [(each.labels, each.value) for each in claimed.samples] == [
        ({"process": "1"}, 5),
        ({"process": "2"}, 7),
    ]
    assert (claimed.type, claimed.documentation, still.name) == (
        "counter",
        "Lanes claimed",
        "duly_running",
    )
