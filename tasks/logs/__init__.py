"""`recon inspect log`: what an engine's log says. Standard library only."""
