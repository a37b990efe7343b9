"""What `recon inspect NAME` shows: one document a subject, and the same for people."""
