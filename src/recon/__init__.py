"""recon: know before you deploy; never redo what is done; never do what was not decided."""

__version__ = "0.1.0"
