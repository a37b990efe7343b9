"""The tables of state.db. Nothing in them is SQLite's alone.

Columns marked `changes` are the only ones that are ever updated; everything else is written once. JSON is kept as
canonical text. Times are UTC seconds. `realm` keeps apart what was really observed ("") from what a bundle recorded
(`bundle:<sha12>`): a recorded host and a real one may have the same name.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

# The alembic revision these tables are at. Revisions are numbers, so that newer can be told from older.
SCHEMA: Final = "0001"

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def _integer(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False)


def _time(name: str) -> Column[float]:
    return Column(name, Float, nullable=False)


setting = Table("setting", metadata, Column("key", Text, primary_key=True), _text("value"))  # value changes

blob = Table(
    "blob", metadata,
    Column("sha256", Text, primary_key=True),  # of the redacted bytes before compression
    _integer("size"),  # bytes before compression
    _text("encoding"),  # zlib, raw
    Column("body", LargeBinary, nullable=False),
)  # fmt: skip

mission = Table(
    "mission", metadata,
    Column("id", Text, primary_key=True),
    _text("key"), _text("realm"), _integer("serial"),  # serial: a second mission of the same key and realm
    _text("text"), _text("origin"),
    Column("as_of", Float),
    _integer("head"),  # changes; 0: no revision yet
    _time("created_at"),
    _text("intent_json"), _text("claims_json"), _text("unplaced_json"), _text("playbook"),
    UniqueConstraint("key", "realm", "serial"),
)  # fmt: skip

revision = Table(
    "revision", metadata,
    Column("mission_id", Text, ForeignKey("mission.id"), primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("parent_n", Integer), Column("decision_id", Integer),
    _text("intent_json"), _text("bindings_json"), _text("playbook"), _text("playbook_hash"), _time("created_at"),
)  # fmt: skip

run = Table(
    "run", metadata,
    Column("id", Integer, primary_key=True),
    Column("mission_id", Text, ForeignKey("mission.id"), nullable=False),
    _text("host"), _text("boot_id"), _integer("pid"), _time("pid_started"), _text("version"), _time("started_at"),
    _time("heartbeat_at"), Column("ended_at", Float), Column("exit_code", Integer),  # these three change
)  # fmt: skip

task = Table(
    "task", metadata,
    Column("id", Integer, primary_key=True),
    Column("mission_id", Text, ForeignKey("mission.id"), nullable=False),
    _text("key"),
    # these five change
    _text("status"), Column("lease_run", Integer, ForeignKey("run.id")), _integer("lease_token"),
    Column("lease_until", Float), _text("edited_json"),  # edited_json: what a person changed, laid over the plan
    # these change when the plan does
    _text("definition"), _text("definition_hash"), _text("kind"), _text("title"), _text("priority"), _text("effect"),
    _time("timeout_s"), _text("limit_name"), _integer("order_no"), _text("because"), _text("discovered_from"),
    _text("planned_json"),
    UniqueConstraint("mission_id", "key"),
)  # fmt: skip
Index(
    "ix_task_lease_run", task.c.lease_run,
    sqlite_where=task.c.lease_run.is_not(None), postgresql_where=task.c.lease_run.is_not(None),
)  # fmt: skip

task_revision = Table(
    "task_revision", metadata,
    Column("mission_id", Text, primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("task_id", Integer, ForeignKey("task.id"), primary_key=True, autoincrement=False),
    _integer("live"),  # changes: 0 when a later plan of the same revision left the task out
    ForeignKeyConstraint(["mission_id", "n"], ["revision.mission_id", "revision.n"]),
)  # fmt: skip

dependency = Table(  # follows the plan
    "dependency", metadata,
    Column("task_id", Integer, ForeignKey("task.id"), primary_key=True, autoincrement=False),
    Column("needs_id", Integer, ForeignKey("task.id"), primary_key=True, autoincrement=False),
    _text("on_end"),  # succeeded, settled
)  # fmt: skip

gate = Table(  # follows the plan
    "gate", metadata,
    Column("task_id", Integer, ForeignKey("task.id"), primary_key=True, autoincrement=False),
    Column("n", Integer, primary_key=True, autoincrement=False),
    _text("text"), _text("words"),
)  # fmt: skip

unknown = Table(  # follows the plan
    "unknown", metadata,
    Column("mission_id", Text, primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("key", Text, primary_key=True),
    _integer("order_no"), _integer("live"),
    _text("question"), _text("who"), _integer("required"), _text("min_level"), _text("finding_ref"),
    _text("planned_json"),
    ForeignKeyConstraint(["mission_id", "n"], ["revision.mission_id", "revision.n"]),
)  # fmt: skip

attempt = Table(
    "attempt", metadata,
    Column("id", Integer, primary_key=True),
    Column("task_id", Integer, ForeignKey("task.id"), nullable=False),
    _integer("n"),  # equals the lease token: every take makes one attempt and one token
    Column("run_id", Integer, ForeignKey("run.id"), nullable=False),
    _text("cause"), _time("started_at"),
    # these change
    Column("phase", Text), _text("input_hash"), _text("reads_json"), Column("ended_at", Float), Column("outcome", Text),
    Column("error_json", Text), _text("summary"), Column("log_sha", Text, ForeignKey("blob.sha256")),
    UniqueConstraint("task_id", "n"),
)  # fmt: skip

observation = Table(
    "observation", metadata,
    Column("realm", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    _text("connector"), _text("target"), _text("probe"), _text("request_json"), _text("revision"),
    _time("observed_at"), _time("duration_s"), _text("host_boot_id"), Column("exit_code", Integer), _text("state"),
    _text("reason"),
    Column("stdout_sha", Text, ForeignKey("blob.sha256"), nullable=False),
    Column("stderr_sha", Text, ForeignKey("blob.sha256"), nullable=False),
    _integer("truncated"), _text("origin"),
    Column("attempt_id", Integer, ForeignKey("attempt.id"), index=True),
    _integer("seq"),
)  # fmt: skip

finding = Table(
    "finding", metadata,
    Column("realm", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    _text("subject"), _text("name"), _text("outcome"), _text("value_json"), Column("unit", Text), _text("reason"),
    _text("level"), Column("observation_id", Text), _text("locator"), _text("producer"), _text("producer_version"),
    Column("lifetime_s", Float), _text("valid_while_json"), _time("observed_at"), _text("origin"),
    _integer("seq"),  # changes only for a derived finding that is concluded again, see Evidence.put_findings
    ForeignKeyConstraint(["realm", "observation_id"], ["observation.realm", "observation.id"]),
    UniqueConstraint("seq"),
    Index("ix_finding_realm_subject_name_seq", "realm", "subject", "name", "seq"),
)  # fmt: skip

finding_input = Table(
    "finding_input", metadata,
    Column("realm", Text, primary_key=True),
    Column("finding_id", Text, primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False),
    _text("input_id"),
    ForeignKeyConstraint(["realm", "finding_id"], ["finding.realm", "finding.id"]),
)  # fmt: skip

judgement = Table(
    "judgement", metadata,
    Column("id", Integer, primary_key=True),
    _text("mission_id"), _integer("n"), _text("key"),
    _text("producer"),  # key of the judge task that made it
    _integer("live"),  # changes: 0 once its producer has judged again
    _text("about"), _text("verdict"), _text("title"), _text("observed_json"), _text("expected_json"),
    _text("detail_json"), _text("consequence"), _text("options_json"), _text("input_hash"),
    Column("run_id", Integer), _time("at"),
    ForeignKeyConstraint(["mission_id", "n"], ["revision.mission_id", "revision.n"]),
    Index("ix_judgement_mission_id_n_live", "mission_id", "n", "live"),
)  # fmt: skip

judgement_finding = Table(
    "judgement_finding", metadata,
    Column("judgement_id", Integer, ForeignKey("judgement.id"), primary_key=True, autoincrement=False),
    Column("n", Integer, primary_key=True, autoincrement=False),
    _text("finding_id"), _text("side"),
)  # fmt: skip

decision = Table(
    "decision", metadata,
    Column("id", Integer, primary_key=True),
    Column("mission_id", Text, ForeignKey("mission.id"), nullable=False, index=True),
    _text("about_key"), _text("option"), _text("value"), _text("because"), _text("by"), _text("via"), _time("at"),
    _text("shown_sha"), _integer("from_n"), _integer("to_n"),
    Column("undoes", Integer, ForeignKey("decision.id")), _text("basis_json"),
)  # fmt: skip

approval = Table(
    "approval", metadata,
    Column("id", Integer, primary_key=True),
    Column("task_id", Integer, ForeignKey("task.id"), nullable=False, index=True),
    _text("change_hash"), _text("exact_hash"), _text("shown_sha"), _text("verdict"), _text("message"), _text("by"),
    _text("via"), _time("at"), _text("scope"),  # scope: exact, bounds
)  # fmt: skip

event = Table(
    "event", metadata,
    Column("seq", Integer, primary_key=True),
    Column("mission_id", Text, ForeignKey("mission.id"), nullable=False),
    Column("run_id", Integer), _text("actor"), _text("entity"), _text("entity_id"), _text("old"), _text("new"),
    _text("payload_json"), _time("at"),
)  # fmt: skip
