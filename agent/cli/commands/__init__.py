"""The commands, one module per concern. Each registers its own; heavy imports stay inside the functions."""
