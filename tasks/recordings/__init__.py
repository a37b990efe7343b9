"""The bundled demo mission as recorded evidence, and the scripts that compose it."""
