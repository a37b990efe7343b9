"""state.db that is missing, new, not ours, damaged, newer, older, read-only, on a full disk, or held by another."""

from __future__ import annotations

import os
import sqlite3
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.children import as_nobody, child, output_of
from support.missions import NOW, answer, new_mission, open_store, plan_of, put, start

from recon.agent.model.errors import StateDamaged, StateLocked, StateNewer, StoreError
from recon.agent.store import Store, Take, migrations
from recon.agent.store.migrations import upgrade
from recon.agent.store.schema import SCHEMA, metadata
from recon.agent.store.sql import ddl


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A closed state.db with a mission and some evidence."""
    with open_store(tmp_path) as store:
        put(store, new_mission(store).id, plan_of(*(f"t{i}" for i in range(300))))
        for i in range(50):
            store.record(*answer(f"{i}" * 3000), realm="", attempt_id=None)
    return tmp_path / "state.db"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can enter (pytest's own cannot)."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)
        os.chmod(name, 0o755)


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_a_new_file_and_its_log_can_be_read_by_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with open_store(tmp_path) as store:
            new_mission(store)
            modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}


def test_a_new_file_is_a_log_database_that_checks_references_and_can_be_opened_again(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        mission = new_mission(store)
        modes = [
            store._raw.execute(f"PRAGMA {p}").fetchone()[0]
            for p in ("journal_mode", "synchronous", "foreign_keys")
        ]
    assert modes == ["wal", 1, 1]
    with open_store(tmp_path) as store:
        assert store.missions() == [mission]


def test_an_empty_file_left_by_a_killed_process_is_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "state.db").touch()
    with open_store(tmp_path) as store:
        assert store.missions() == []


def test_eight_processes_that_make_the_same_file_all_get_it(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from recon.agent.store import Store; Store.open(Path(sys.argv[1])).close()"
    processes = [child(code, str(tmp_path / "state.db")) for _ in range(8)]
    assert [(p.communicate(timeout=60), p.returncode) for p in processes] == [(("", ""), 0)] * 8
    with open_store(tmp_path) as store:
        assert store.missions() == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"there is no folder .*/no/such") as caught:
        Store.open(tmp_path / "no" / "such" / "state.db")
    assert "--db" in caught.value.hint


def test_a_file_that_is_not_there_is_not_made_unless_asked(tmp_path: Path) -> None:
    for arguments in ({"create": False}, {"read_only": True}):
        with pytest.raises(StoreError, match="no such file"):
            Store.open(tmp_path / "state.db", **arguments)
    assert files(tmp_path) == {}


def test_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a file"):
        Store.open(tmp_path)


@pytest.mark.parametrize(
    "content", [b"hello, this is my diary\n" * 400, b"\0" * 9000, b"x"], ids=["text", "zeros", "x"]
)
def test_something_else_in_its_place_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state.db").write_bytes(content)
    with pytest.raises(StateDamaged):
        open_store(tmp_path)
    assert files(tmp_path) == {"state.db": content}


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "state.db")
    other.execute("CREATE TABLE songs (name TEXT)")
    other.commit()
    other.close()
    before = files(tmp_path)
    with pytest.raises(StateDamaged, match="another program"):
        open_store(tmp_path)
    assert files(tmp_path) == before


@pytest.mark.parametrize("keep", [0.9, 0.5, 0.1])
def test_a_truncated_file_is_refused_and_left_alone(filled: Path, keep: float) -> None:
    cut = filled.read_bytes()[: int(filled.stat().st_size * keep)]
    filled.write_bytes(cut)
    with pytest.raises(StateDamaged):
        Store.open(filled)
    assert files(filled.parent) == {"state.db": cut}


def test_a_page_that_went_bad_is_reported_as_damage_when_it_is_read(filled: Path) -> None:
    data = bytearray(filled.read_bytes())
    data[8192:] = os.urandom(len(data) - 8192)
    filled.write_bytes(data)
    with pytest.raises(StateDamaged), Store.open(filled) as store:
        store.tasks(store.missions()[0].id)
        store.observations("")
        store.events_after("m", 0)


def test_a_newer_schema_is_refused_with_both_versions_and_left_alone(filled: Path) -> None:
    raw = sqlite3.connect(filled)
    raw.execute("UPDATE alembic_version SET version_num = '0457'")
    raw.commit()
    raw.close()
    before = files(filled.parent)
    with pytest.raises(StateNewer, match=rf"0457.*{SCHEMA}"):
        Store.open(filled)
    assert files(filled.parent) == before


def test_the_tables_of_a_new_file_are_those_that_the_migrations_make(tmp_path: Path) -> None:
    migrated = sqlite3.connect(":memory:", isolation_level=None)
    upgrade(migrated)
    direct = sqlite3.connect(":memory:", isolation_level=None)
    for statement in ddl(metadata.sorted_tables):
        direct.execute(statement)
    assert _layout(migrated) == _layout(direct)
    assert migrated.execute("SELECT version_num FROM alembic_version").fetchall() == [(SCHEMA,)]
    migrated.close()
    direct.close()


def _layout(raw: sqlite3.Connection) -> dict[str, list[str]]:
    rows = raw.execute(
        "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name != 'alembic_version'"
    )
    return {name: sorted(line.strip(" \t,") for line in sql.splitlines()) for name, sql in rows}


_ADDS_A_COLUMN = """
import sqlalchemy as sa
from alembic import op
revision, down_revision, branch_labels, depends_on = "0002", "0001", None, None
def upgrade():
    op.add_column("mission", sa.Column("colour", sa.Text()))
    {then}
"""


@pytest.mark.parametrize("then", ["pass", "raise RuntimeError('half way')"])
def test_an_upgrade_is_done_as_a_whole_or_not_at_all(filled: Path, tmp_path: Path, then: str) -> None:
    folder = tmp_path / "versions"
    folder.mkdir()
    (folder / "v0002_colour.py").write_text(_ADDS_A_COLUMN.format(then=then))
    raw = sqlite3.connect(filled, isolation_level=None)
    versions = (Path(migrations.__file__).parent / "versions", folder)
    if then == "pass":
        upgrade(raw, versions=versions)
    else:
        with pytest.raises(RuntimeError, match="half way"):
            upgrade(raw, versions=versions)
    columns = {row[1] for row in raw.execute("PRAGMA table_info(mission)")}
    version = raw.execute("SELECT version_num FROM alembic_version").fetchone()[0]
    missions = raw.execute("SELECT count(*) FROM mission").fetchone()[0]
    raw.close()
    assert ("colour" in columns, version, missions) == (
        (True, "0002", 1) if then == "pass" else (False, "0001", 1)
    )


def test_a_read_only_file_or_folder_is_refused_for_writing_and_opens_for_reading(open_folder: Path) -> None:
    path = open_folder / "state.db"
    with Store.open(path) as store:
        mission = new_mission(store)
    path.chmod(0o444)
    open_folder.chmod(0o555)

    def write() -> str:
        return repr(Store.open(path))

    def make() -> str:
        return repr(Store.open(open_folder / "other.db"))

    def read() -> str:
        with Store.open(path, read_only=True) as store:
            return store.missions()[0].id

    assert as_nobody(write) == f"StoreError: {path}: may not be written"
    assert as_nobody(make) == f"StoreError: {open_folder}/other.db: may not be written"
    assert as_nobody(read) == mission.id
    assert os.listdir(open_folder) == ["state.db"]


def test_a_read_only_store_sees_what_others_write_and_refuses_to_write_itself(tmp_path: Path) -> None:
    with open_store(tmp_path) as writer, Store.open(tmp_path / "state.db", read_only=True) as reader:
        before = reader.data_version()
        mission = new_mission(writer)
        assert reader.data_version() != before
        assert reader.missions() == [mission]
        with pytest.raises(StoreError, match="may not be written"):
            reader.use_mission(mission.id)


def test_a_full_disk_is_an_error_that_leaves_nothing_half_written(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        mission = new_mission(store)
        events = store.event_count(mission.id)
        pages = store._raw.execute("PRAGMA page_count").fetchone()[0]
        store._raw.execute(f"PRAGMA max_page_count={pages + 3}")
        with pytest.raises(StoreError, match="the disk is full") as caught:
            put(store, mission.id, plan_of(*(f"t{i}" for i in range(2000))))
        assert type(caught.value) is StoreError
        assert (store.tasks(mission.id), store.event_count(mission.id)) == ([], events)
        store._raw.execute("PRAGMA max_page_count=100000")
        assert len(put(store, mission.id, plan_of("a", "b"))) == 2
    assert _integrity(tmp_path / "state.db") == "ok"


_LIMITED = """
import resource, sys
from pathlib import Path
from support.missions import *
from recon.agent.model.errors import StoreError
from recon.agent.store import Store
store = Store.open(Path(sys.argv[1]))
mission = store.current_mission()
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    put(store, mission.id, plan_of(*(f"t{i}" for i in range(3000))))
except StoreError as error:
    print(type(error).__name__, store.tasks(mission.id))
store.close()
"""


def test_a_file_that_may_not_grow_is_an_error_that_leaves_nothing_half_written(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        mission = new_mission(store)
    assert output_of(_LIMITED, str(tmp_path / "state.db"), "250000") == "StoreError []\n"
    with open_store(tmp_path) as store:
        assert store.tasks(mission.id) == []
        assert len(put(store, mission.id, plan_of("a"))) == 1
    assert _integrity(tmp_path / "state.db") == "ok"


def test_another_writer_is_waited_for(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        mission = new_mission(store)
        other = sqlite3.connect(tmp_path / "state.db", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        timer = threading.Timer(0.6, other.execute, ["COMMIT"])
        timer.start()
        put(store, mission.id, plan_of("a"))
        waited = time.monotonic() - began
        timer.join()
        other.close()
    assert waited >= 0.5


def test_a_writer_that_stays_is_named(tmp_path: Path) -> None:
    with Store.open(tmp_path / "state.db", busy_wait_s=0.4) as store:
        mission = new_mission(store)
        run = start(store, mission.id, pid=4711)
        ids = put(store, mission.id, plan_of("a"))
        other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StateLocked, match=r"run 1 \(process 4711 on here\)"):
            store.step(run.id, finishes=[], takes=[Take(ids["a"])], now=NOW, lease_s=30)
        other.execute("COMMIT")
        other.close()
        assert store.step(run.id, finishes=[], takes=[Take(ids["a"])], now=NOW, lease_s=30).taken


def test_nothing_heavy_is_loaded_to_open_a_state_that_is_up_to_date(filled: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from recon.agent.store import Store; Store.open(Path(sys.argv[1]));"
        "print([m for m in ('alembic', 'sqlalchemy.orm', 'asyncssh', 'httpx', 'textual') if m in sys.modules])"
    )
    assert output_of(code, str(filled)) == "[]\n"


def test_writes_inside_a_transaction_that_fails_are_all_taken_back(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        mission = new_mission(store)
        with pytest.raises(ZeroDivisionError), store.transaction(durable=True):
            put(store, mission.id, plan_of("a"))
            raise ZeroDivisionError
        assert store.tasks(mission.id) == []
        with store.transaction():
            put(store, mission.id, plan_of("a"))
            with pytest.raises(ZeroDivisionError), store.transaction():
                put(store, mission.id, plan_of("a", "b"))
                raise ZeroDivisionError
        assert [t.key for t in store.tasks(mission.id)] == ["a"]
        assert store._raw.execute("PRAGMA synchronous").fetchone()[0] == 1


def test_a_durable_transaction_waits_for_the_disk(tmp_path: Path) -> None:
    with open_store(tmp_path) as store, store.transaction(durable=True) as raw:
        assert raw.execute("PRAGMA synchronous").fetchone()[0] == 2


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="already closed"):
        store.missions()


def _integrity(path: Path) -> str:
    raw = sqlite3.connect(path)
    said = raw.execute("PRAGMA integrity_check").fetchone()[0]
    raw.close()
    return str(said)
