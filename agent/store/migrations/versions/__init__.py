"""One file a schema revision, numbered."""
