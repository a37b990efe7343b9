"""`python -m recon` is the `recon` command."""

from recon.agent.cli import main

if __name__ == "__main__":
    main()
