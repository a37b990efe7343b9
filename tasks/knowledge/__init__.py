"""Tables of what is known about engines, formats and GPUs, with their sources."""
