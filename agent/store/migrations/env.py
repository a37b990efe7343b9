"""What alembic runs: the migrations, over the connection it was given, in the transaction that is already open."""

from __future__ import annotations

from alembic import context

from recon.agent.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=True,
    render_as_batch=True,
)  # fmt: skip
with context.begin_transaction():
    context.run_migrations()
