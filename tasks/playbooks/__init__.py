"""Which todo items, unknowns and gates a mission gets."""
