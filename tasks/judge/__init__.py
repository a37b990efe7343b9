"""Findings against claims: answers and discrepancies."""
