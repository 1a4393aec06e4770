"""What several commands print."""

from typing import Any

from rich.table import Table
from rich.text import Text


def as_table(rows: list[dict[str, Any]], *, title: str = "") -> Table:
    """Rows as a table for the terminal, one column per key, numbers to the right."""
    table = Table(title=title)
    for key, value in rows[0].items():
        table.add_column(key, justify="left" if isinstance(value, str) else "right", overflow="fold")
    for row in rows:
        texts = (_text(value) for value in row.values())
        table.add_row(*map(Text, texts))  # as they are: a file's name may hold brackets
    return table


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return "–" if value is None else str(value)
