"""Tables in Markdown."""

from __future__ import annotations


def row(*cells: str) -> str:
    """One line of a table; line ends and bars in a cell are escaped."""
    return (
        f"| {' | '.join(' '.join(each.split()).replace('|', chr(92) + '|') for each in cells)} |\n"
    )
