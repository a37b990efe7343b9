"""Read-only tasks: facts to findings."""
