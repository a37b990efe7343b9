"""The loop that takes tasks, runs them side by side, and writes down how they ended. The only asyncio.TaskGroup."""
