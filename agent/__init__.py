"""What decides, remembers and drives: the rooms of recon that know nothing of LLM serving."""
