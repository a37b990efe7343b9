"""What reaches a host, the Hub or the web, and what replays them. The only room of asyncssh, httpx and huggingface_hub.

Importing this package loads none of them: each module is imported where a live source is made.
"""
