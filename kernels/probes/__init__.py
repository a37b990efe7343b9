"""Probe programs: small read-only programs that must run on the host to know; each also runs alone there."""
