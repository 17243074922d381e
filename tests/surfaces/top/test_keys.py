"""Keys: what terminals send, in one piece or in several."""

import pytest

from duly.surfaces.cli.top.keys import KeyReader


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        (b"j", ["j"]),
        (b"jk\r", ["j", "k", "enter"]),
        (b"\x1b[A\x1bOB", ["up", "down"]),
        (b"\x1b[5~\x1b[6~\x1b[H\x1b[4~", ["page_up", "page_down", "home", "end"]),
        (b"\t\x1b[Z\x7f\x15", ["tab", "back_tab", "backspace", "clear"]),
        ("é€".encode(), ["é", "€"]),
        (b"\x1bx", ["escape", "x"]),
        (b"\x1b\x1b[A", ["escape", "up"]),
        (b"\x1b[1;5C\x1b[200~x\x00\x9b", ["x"]),
    ],
)
def test_bytes_become_keys(sent: bytes, keys: list[str]) -> None:
    reader = KeyReader()
    found = reader.feed(sent)
    assert [each for each in found if each != "\ufffd"] == keys
    assert not reader.is_waiting or sent.endswith(b"\x9b")


def test_a_sequence_in_pieces_is_one_key() -> None:
    reader = KeyReader()
    assert (reader.feed(b"\x1b"), reader.feed(b"["), reader.feed(b"B")) == ([], [], ["down"])
    assert reader.feed("é".encode()[:1]) == []
    assert reader.feed("é".encode()[1:]) == ["é"]


def test_escape_alone_is_a_key_when_nothing_follows() -> None:
    reader = KeyReader()
    assert reader.feed(b"\x1b") == []
    assert reader.is_waiting
    assert reader.flush() == ["escape"]
    assert not reader.is_waiting
    assert reader.flush() == []
