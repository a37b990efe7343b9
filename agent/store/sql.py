"""Core statements turned into SQL text once, for the connection that everything here uses.

Executing a Core statement through SQLAlchemy costs about 50 us; its text on the driver's own connection about 5 us.
The statements stay Core, so that names are checked against the tables and another database needs another dialect only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from sqlalchemy import ClauseElement, Delete, Insert, Select, Table, Update, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.schema import CreateIndex, CreateTable

_DIALECT = sqlite.dialect(paramstyle="named")


class Sql:
    """A statement with named parameters. `columns` are those an INSERT or UPDATE sets; compiled when first used."""

    def __init__(
        self, statement: Select[Any] | Insert | Update | Delete, *, columns: Iterable[str] | None = None
    ) -> None:
        self._statement = statement
        self._columns = None if columns is None else list(columns)

    @cached_property
    def text(self) -> str:
        """The SQL, with `:name` parameters."""
        return self._compiled[0]

    def params(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The parameters given, with the constants the statement was written with."""
        constants = self._compiled[1]
        return {**constants, **given} if constants else given

    @cached_property
    def _compiled(self) -> tuple[str, dict[str, Any]]:
        compiled = self._statement.compile(dialect=_DIALECT, column_keys=self._columns)
        constants = {
            name: bind.value
            for bind, name in compiled.bind_names.items()
            if not bind.required and bind.value is not None
        }
        return str(compiled), constants


def insert_of(table: Table, *, without: Sequence[str] = (), ignore: bool = False) -> Sql:
    """An INSERT of every column but `without`. `ignore`: a row with the same primary key is left as it is."""
    columns = [c.name for c in table.columns if c.name not in without]
    statement = sqlite_insert(table)
    if ignore:
        statement = statement.on_conflict_do_nothing(index_elements=list(table.primary_key.columns))
    return Sql(statement, columns=columns)


def all_of(table: Table) -> Select[Any]:
    """A SELECT of every column."""
    return select(table)


def ddl(tables: Iterable[Table]) -> list[str]:
    """The statements that make these tables and their indexes."""
    statements: list[ClauseElement] = []
    for table in tables:
        statements.append(CreateTable(table))
        statements += [CreateIndex(index) for index in sorted(table.indexes, key=lambda i: str(i.name))]
    return [str(statement.compile(dialect=_DIALECT)) for statement in statements]
