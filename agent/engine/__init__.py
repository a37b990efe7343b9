"""Decisions as pure functions: (snapshot, now) -> values. No I/O, no clock."""
