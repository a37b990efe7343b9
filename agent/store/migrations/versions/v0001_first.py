"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Makes all tables."""
    op.create_table(
        "blob",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("encoding", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_blob")),
    )
    op.create_table(
        "mission",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("realm", sa.Text(), nullable=False),
        sa.Column("serial", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("as_of", sa.Float(), nullable=True),
        sa.Column("head", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("intent_json", sa.Text(), nullable=False),
        sa.Column("claims_json", sa.Text(), nullable=False),
        sa.Column("unplaced_json", sa.Text(), nullable=False),
        sa.Column("playbook", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mission")),
        sa.UniqueConstraint("key", "realm", "serial", name=op.f("uq_mission_key_realm_serial")),
    )
    op.create_table(
        "setting",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_setting")),
    )
    op.create_table(
        "decision",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("mission_id", sa.Text(), nullable=False),
        sa.Column("about_key", sa.Text(), nullable=False),
        sa.Column("option", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("because", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("via", sa.Text(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("shown_sha", sa.Text(), nullable=False),
        sa.Column("from_n", sa.Integer(), nullable=False),
        sa.Column("to_n", sa.Integer(), nullable=False),
        sa.Column("undoes", sa.Integer(), nullable=True),
        sa.Column("basis_json", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["mission_id"], ["mission.id"], name=op.f("fk_decision_mission_id")),
        sa.ForeignKeyConstraint(["undoes"], ["decision.id"], name=op.f("fk_decision_undoes")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decision")),
    )
    op.create_index(op.f("ix_decision_mission_id"), "decision", ["mission_id"], unique=False)
    op.create_table(
        "event",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("mission_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("entity", sa.Text(), nullable=False),
        sa.Column("entity_id", sa.Text(), nullable=False),
        sa.Column("old", sa.Text(), nullable=False),
        sa.Column("new", sa.Text(), nullable=False),
        sa.Column("payload_json", sa.Text(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["mission_id"], ["mission.id"], name=op.f("fk_event_mission_id")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_event")),
    )
    op.create_table(
        "revision",
        sa.Column("mission_id", sa.Text(), nullable=False),
        sa.Column("n", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("parent_n", sa.Integer(), nullable=True),
        sa.Column("decision_id", sa.Integer(), nullable=True),
        sa.Column("intent_json", sa.Text(), nullable=False),
        sa.Column("bindings_json", sa.Text(), nullable=False),
        sa.Column("playbook", sa.Text(), nullable=False),
        sa.Column("playbook_hash", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["mission_id"], ["mission.id"], name=op.f("fk_revision_mission_id")),
        sa.PrimaryKeyConstraint("mission_id", "n", name=op.f("pk_revision")),
    )
    op.create_table(
        "run",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("mission_id", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("pid_started", sa.Float(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("heartbeat_at", sa.Float(), nullable=False),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["mission_id"], ["mission.id"], name=op.f("fk_run_mission_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
    )
    op.create_table(
        "judgement",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("mission_id", sa.Text(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("producer", sa.Text(), nullable=False),
        sa.Column("live", sa.Integer(), nullable=False),
        sa.Column("about", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("observed_json", sa.Text(), nullable=False),
        sa.Column("expected_json", sa.Text(), nullable=False),
        sa.Column("detail_json", sa.Text(), nullable=False),
        sa.Column("consequence", sa.Text(), nullable=False),
        sa.Column("options_json", sa.Text(), nullable=False),
        sa.Column("input_hash", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=True),
        sa.Column("at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["mission_id", "n"], ["revision.mission_id", "revision.n"], name=op.f("fk_judgement_mission_id_n")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_judgement")),
    )
    op.create_index("ix_judgement_mission_id_n_live", "judgement", ["mission_id", "n", "live"], unique=False)
    op.create_table(
        "task",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("mission_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("lease_run", sa.Integer(), nullable=True),
        sa.Column("lease_token", sa.Integer(), nullable=False),
        sa.Column("lease_until", sa.Float(), nullable=True),
        sa.Column("edited_json", sa.Text(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("definition_hash", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("priority", sa.Text(), nullable=False),
        sa.Column("effect", sa.Text(), nullable=False),
        sa.Column("timeout_s", sa.Float(), nullable=False),
        sa.Column("limit_name", sa.Text(), nullable=False),
        sa.Column("order_no", sa.Integer(), nullable=False),
        sa.Column("because", sa.Text(), nullable=False),
        sa.Column("discovered_from", sa.Text(), nullable=False),
        sa.Column("planned_json", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["lease_run"], ["run.id"], name=op.f("fk_task_lease_run")),
        sa.ForeignKeyConstraint(["mission_id"], ["mission.id"], name=op.f("fk_task_mission_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task")),
        sa.UniqueConstraint("mission_id", "key", name=op.f("uq_task_mission_id_key")),
    )
    op.create_index(
        "ix_task_lease_run",
        "task",
        ["lease_run"],
        unique=False,
        sqlite_where=sa.text("lease_run IS NOT NULL"),
        postgresql_where=sa.text("lease_run IS NOT NULL"),
    )
    op.create_table(
        "unknown",
        sa.Column("mission_id", sa.Text(), nullable=False),
        sa.Column("n", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("order_no", sa.Integer(), nullable=False),
        sa.Column("live", sa.Integer(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("required", sa.Integer(), nullable=False),
        sa.Column("min_level", sa.Text(), nullable=False),
        sa.Column("finding_ref", sa.Text(), nullable=False),
        sa.Column("planned_json", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["mission_id", "n"], ["revision.mission_id", "revision.n"], name=op.f("fk_unknown_mission_id_n")
        ),
        sa.PrimaryKeyConstraint("mission_id", "n", "key", name=op.f("pk_unknown")),
    )
    op.create_table(
        "approval",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("change_hash", sa.Text(), nullable=False),
        sa.Column("exact_hash", sa.Text(), nullable=False),
        sa.Column("shown_sha", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("via", sa.Text(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_approval_task_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approval")),
    )
    op.create_index(op.f("ix_approval_task_id"), "approval", ["task_id"], unique=False)
    op.create_table(
        "attempt",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=True),
        sa.Column("input_hash", sa.Text(), nullable=False),
        sa.Column("reads_json", sa.Text(), nullable=False),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("error_json", sa.Text(), nullable=True),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("log_sha", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["log_sha"], ["blob.sha256"], name=op.f("fk_attempt_log_sha")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_attempt_run_id")),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_attempt_task_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempt")),
        sa.UniqueConstraint("task_id", "n", name=op.f("uq_attempt_task_id_n")),
    )
    op.create_table(
        "dependency",
        sa.Column("task_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("needs_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("on_end", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["needs_id"], ["task.id"], name=op.f("fk_dependency_needs_id")),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_dependency_task_id")),
        sa.PrimaryKeyConstraint("task_id", "needs_id", name=op.f("pk_dependency")),
    )
    op.create_table(
        "gate",
        sa.Column("task_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("n", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_gate_task_id")),
        sa.PrimaryKeyConstraint("task_id", "n", name=op.f("pk_gate")),
    )
    op.create_table(
        "judgement_finding",
        sa.Column("judgement_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("n", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("finding_id", sa.Text(), nullable=False),
        sa.Column("side", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["judgement_id"], ["judgement.id"], name=op.f("fk_judgement_finding_judgement_id")
        ),
        sa.PrimaryKeyConstraint("judgement_id", "n", name=op.f("pk_judgement_finding")),
    )
    op.create_table(
        "task_revision",
        sa.Column("mission_id", sa.Text(), nullable=False),
        sa.Column("n", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("task_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("live", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["mission_id", "n"],
            ["revision.mission_id", "revision.n"],
            name=op.f("fk_task_revision_mission_id_n"),
        ),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_task_revision_task_id")),
        sa.PrimaryKeyConstraint("mission_id", "n", "task_id", name=op.f("pk_task_revision")),
    )
    op.create_table(
        "observation",
        sa.Column("realm", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("connector", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("probe", sa.Text(), nullable=False),
        sa.Column("request_json", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("observed_at", sa.Float(), nullable=False),
        sa.Column("duration_s", sa.Float(), nullable=False),
        sa.Column("host_boot_id", sa.Text(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("stdout_sha", sa.Text(), nullable=False),
        sa.Column("stderr_sha", sa.Text(), nullable=False),
        sa.Column("truncated", sa.Integer(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("attempt_id", sa.Integer(), nullable=True),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempt.id"], name=op.f("fk_observation_attempt_id")),
        sa.ForeignKeyConstraint(["stderr_sha"], ["blob.sha256"], name=op.f("fk_observation_stderr_sha")),
        sa.ForeignKeyConstraint(["stdout_sha"], ["blob.sha256"], name=op.f("fk_observation_stdout_sha")),
        sa.PrimaryKeyConstraint("realm", "id", name=op.f("pk_observation")),
    )
    op.create_index(op.f("ix_observation_attempt_id"), "observation", ["attempt_id"], unique=False)
    op.create_table(
        "finding",
        sa.Column("realm", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("value_json", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("level", sa.Text(), nullable=False),
        sa.Column("observation_id", sa.Text(), nullable=True),
        sa.Column("locator", sa.Text(), nullable=False),
        sa.Column("producer", sa.Text(), nullable=False),
        sa.Column("producer_version", sa.Text(), nullable=False),
        sa.Column("lifetime_s", sa.Float(), nullable=True),
        sa.Column("valid_while_json", sa.Text(), nullable=False),
        sa.Column("observed_at", sa.Float(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["realm", "observation_id"],
            ["observation.realm", "observation.id"],
            name=op.f("fk_finding_realm_observation_id"),
        ),
        sa.PrimaryKeyConstraint("realm", "id", name=op.f("pk_finding")),
        sa.UniqueConstraint("seq", name=op.f("uq_finding_seq")),
    )
    op.create_index(
        "ix_finding_realm_subject_name_seq", "finding", ["realm", "subject", "name", "seq"], unique=False
    )
    op.create_table(
        "finding_input",
        sa.Column("realm", sa.Text(), nullable=False),
        sa.Column("finding_id", sa.Text(), nullable=False),
        sa.Column("n", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("input_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["realm", "finding_id"],
            ["finding.realm", "finding.id"],
            name=op.f("fk_finding_input_realm_finding_id"),
        ),
        sa.PrimaryKeyConstraint("realm", "finding_id", "n", name=op.f("pk_finding_input")),
    )
