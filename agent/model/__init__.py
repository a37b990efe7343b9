"""The words of recon as frozen types. No I/O, no clock, no environment."""
