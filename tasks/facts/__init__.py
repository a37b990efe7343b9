"""A command or request plus a pure parser, one subject a file."""
