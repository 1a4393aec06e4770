"""Rows as a Parquet file, which pandas, DuckDB, Polars and Spark read."""

import io
import json
from collections.abc import Sequence
from typing import Any

from purgegate.io.results import Row
from purgegate.report.tables import accuracy


def to_parquet(rows: Sequence[Row]) -> bytes:
    """A column for every fact that a row has; options and lists are JSON, `accuracy` is in percent."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ValueError(f"parquet needs pyarrow: pip install 'purgegate[parquet]' ({error})") from error
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: _column([row.get(name) for row in rows]) for name in names}
    columns["accuracy"] = [accuracy(row) for row in rows]
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def _column(values: list[Any]) -> list[Any]:
    """Values of one kind: as they are, or else all as JSON."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} or kinds in ({str}, {bool}):
        return values
    return [None if value is None else json.dumps(value, sort_keys=True) for value in values]
