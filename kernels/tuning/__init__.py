"""Tuning: searches for kernel parameters on one GPU, and the tables that come of it; runs alone on the host."""
