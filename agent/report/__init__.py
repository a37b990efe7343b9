"""Reports: pure functions from a `MissionState` to text, markdown and JSON."""
