"""The few files of a repository that lint needs, from the Hub. Nothing is kept."""

from __future__ import annotations

import os
import re
import urllib.error
import urllib.request
from typing import Final

from recon.tasks.lint.checkpoint import MAX_BYTES, Checkpoint, checkpoint_of

_TIMEOUT_S: Final = 20.0


def fetch_checkpoint(repo: str, *, revision: str = "main") -> Checkpoint:
    """Reads config.json, hf_quant_config.json and the index of ORG/NAME; HF_ENDPOINT and HF_TOKEN are heard.

    The files are read at the commit the first answer names. Raises ValueError, in words, where the Hub does not give them.
    """
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    if not re.match(r"^https?://", endpoint):
        raise ValueError(f"HF_ENDPOINT is no http address: {endpoint!r}")
    commit = [revision]

    def file(name: str) -> bytes | None:
        request = urllib.request.Request(f"{endpoint}/{repo}/resolve/{commit[0]}/{name}")
        if token := os.environ.get("HF_TOKEN"):
            request.add_unredirected_header("Authorization", f"Bearer {token}")  # never to another host
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                commit[0] = answer.headers.get("X-Repo-Commit") or commit[0]
                body: bytes = answer.read(MAX_BYTES + 1)
        except urllib.error.HTTPError as error:
            if error.code == 404 and error.headers.get("X-Error-Code") in ("EntryNotFound", None):
                return None
            raise ValueError(
                f"{repo}: the Hub answers {error.code} ({error.headers.get('X-Error-Message') or error.reason})"
            ) from None
        except (OSError, ValueError) as error:
            raise ValueError(f"{repo}: {endpoint} is not reached ({error})") from None
        return body if len(body) <= MAX_BYTES else None

    return checkpoint_of(file, named=repo)
