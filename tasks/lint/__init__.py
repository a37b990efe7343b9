"""`recon lint`: whether a launch line is one that a release of the engine takes. Standard library only."""
