"""Statements, ids and the event log without a file."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import bindparam

from recon.agent.model.errors import StateDamaged, StateLocked, StoreError, UsageError
from recon.agent.model.records import Event
from recon.agent.store import schema
from recon.agent.store.faults import store_error
from recon.agent.store.lookups import pick
from recon.agent.store.replay_events import statuses
from recon.agent.store.sql import Sql, all_of, insert_of


def test_a_statement_becomes_text_with_named_parameters_and_keeps_its_constants() -> None:
    sql = Sql(
        all_of(schema.setting).where(
            schema.setting.c.key == bindparam("wanted"), schema.setting.c.value == "x"
        )
    )
    assert 'setting."key" = :wanted AND setting.value = :value_1' in sql.text
    assert sql.params({"wanted": "k"}) == {"wanted": "k", "value_1": "x"}


def test_an_update_sets_the_named_columns_only() -> None:
    update = Sql(schema.task.update().where(schema.task.c.id == bindparam("wanted")), columns=["status"])
    assert update.text == "UPDATE task SET status=:status WHERE task.id = :wanted"


def test_an_insert_names_every_column_but_those_the_database_numbers() -> None:
    assert insert_of(schema.setting).text == 'INSERT INTO setting ("key", value) VALUES (:key, :value)'
    assert ":id" not in insert_of(schema.run, without=("id",)).text
    assert insert_of(schema.setting, ignore=True).text.endswith('ON CONFLICT ("key") DO NOTHING')


@pytest.mark.parametrize("wanted", ["m-0123", "0123", "m-0123456789ab"])
def test_the_beginning_of_an_id_is_enough(wanted: str) -> None:
    assert pick(wanted, ["m-0123456789ab", "m-99"], what="mission", see="") == "m-0123456789ab"


def test_a_whole_id_wins_over_a_longer_one() -> None:
    assert pick("m-1", ["m-12", "m-1"], what="mission", see="") == "m-1"


def test_what_fits_nothing_or_two_is_refused() -> None:
    with pytest.raises(UsageError, match="did you mean m-0123"):
        pick("m-0124", ["m-0123", "m-99"], what="mission", see="")
    with pytest.raises(UsageError, match="more than one"):
        pick("m-", ["m-0123", "m-99"], what="mission", see="")
    with pytest.raises(UsageError, match="nothing: no such mission"):
        pick("", ["m-0123"], what="mission", see="")


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("SQLITE_NOTADB", StateDamaged, "not a usable state"),
        ("SQLITE_CORRUPT_INDEX", StateDamaged, "not a usable state"),
        ("SQLITE_BUSY_SNAPSHOT", StateLocked, "held by another process"),
        ("SQLITE_FULL", StoreError, "the disk is full"),
        ("SQLITE_READONLY_DIRECTORY", StoreError, "may not be written"),
        ("SQLITE_CANTOPEN", StoreError, "cannot be opened"),
        ("SQLITE_IOERR_WRITE", StoreError, "refused a read or write"),
        ("SQLITE_CONSTRAINT_UNIQUE", StoreError, "boom"),
    ],
)
def test_each_fault_of_the_driver_has_its_message(name: str, kind: type[StoreError], words: str) -> None:
    fault = sqlite3.OperationalError("boom")
    fault.sqlite_errorname = name
    said = store_error(fault, Path("state.db"))
    assert type(said) is kind
    assert words in said.message
    assert said.hint


def event(seq: int, entity: str, old: str, new: str) -> Event:
    return Event(
        seq=seq, mission_id="m", run_id=None, actor="a", entity=entity, entity_id="1", old=old, new=new, payload={}, at=0.0
    )  # fmt: skip


def test_the_last_event_of_a_thing_is_its_status() -> None:
    events = [
        event(1, "task", "", "pending"),
        event(2, "decision", "", "active"),
        event(3, "task", "pending", "running"),
    ]
    assert statuses(events, entity="task") == {"1": "running"}
    assert statuses(events, entity="decision") == {"1": "active"}
