"""Changes: rendered, checked, verified. Applied by the runner alone."""
