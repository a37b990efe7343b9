"""What is known about deploying LLMs; speaks to the rest only through `recon.agent.api`."""
