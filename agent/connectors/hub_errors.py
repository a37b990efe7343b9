"""What the Hub's refusals mean and what to do about them. A file that is not there is an answer, not an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from recon.agent.connectors.commands import first_line
from recon.agent.connectors.http import retry_after_s
from recon.agent.model.errors import HubError
from recon.agent.model.findings import Request

_DISABLED: Final = "access to this resource is disabled"
_BAD_TOKEN: Final = "invalid credentials"


def hub_error(
    request: Request,
    message: str,
    *,
    hint: str = "",
    retryable: bool = False,
    retry_after: float | None = None,
) -> HubError:
    """A HubError about the repository of a request."""
    return HubError(
        message,
        target=request.target,
        operation=request.probe,
        retryable=retryable,
        hint=hint,
        retry_after_s=retry_after,
    )


def refusal(request: Request, endpoint: str, status: int, headers: Mapping[str, str]) -> HubError | None:
    """The error of a refused request; None where the refusal is about one file alone. Header names in lower case.

    The Hub names the reason in `X-Error-Code`; it answers 401 for private and for missing repositories alike.
    """
    code, said = headers.get("x-error-code", ""), headers.get("x-error-message", "").lower()
    repo = request.target
    if code == "GatedRepo":
        return hub_error(
            request, f"{repo} is gated: its licence has to be accepted first",
            hint=f"accept it at {endpoint}/{repo}, then set HF_TOKEN",
        )  # fmt: skip
    if said.startswith(_DISABLED):
        return hub_error(request, f"{repo} was disabled by the Hub", hint="choose another repository")
    if code == "RevisionNotFound":
        return hub_error(
            request,
            f"{repo} has no revision {request.revision or 'main'}",
            hint="check the branch, tag or commit",
        )
    if code == "EntryNotFound":
        return None
    if status == 401 and said.startswith(_BAD_TOKEN):
        return hub_error(request, f"{endpoint} does not accept the token", hint="renew HF_TOKEN")
    if code == "RepoNotFound" or status == 401:
        return hub_error(
            request,
            f"{repo} is missing or private: {endpoint} does not say which",
            hint="check the name; set HF_TOKEN for a private one",
        )
    if status == 429:
        wait = retry_after_s(headers)
        when = f"; again in {wait:g} s" if wait is not None else ""
        return hub_error(
            request,
            f"{endpoint} limits the rate of requests{when}",
            retryable=True,
            retry_after=wait,
            hint="recon resume",
        )
    if status >= 500:
        return hub_error(request, f"{endpoint} answers HTTP {status}", retryable=True, hint="recon resume")
    return None


def unreachable(request: Request, endpoint: str, why: str) -> HubError:
    """The Hub itself cannot be reached."""
    return hub_error(
        request,
        f"cannot reach {endpoint}: {why}",
        retryable=True,
        hint="is there a proxy, or a mirror (--hub URL)?",
    )


def from_library(error: Exception, request: Request, endpoint: str) -> HubError:
    """The HubError for what huggingface_hub raised."""
    from huggingface_hub.errors import HFValidationError, OfflineModeIsEnabled

    if isinstance(error, OfflineModeIsEnabled):
        return hub_error(
            request, "HF_HUB_OFFLINE is set: nothing is asked of the Hub", hint="unset HF_HUB_OFFLINE"
        )
    if isinstance(error, HFValidationError):
        return hub_error(request, f"not a repository: {request.target!r}", hint="it looks like ORG/NAME")
    response = getattr(error, "response", None)
    if response is not None:
        headers = {str(k).lower(): str(v) for k, v in response.headers.items()}
        known = refusal(request, endpoint, int(response.status_code), headers)
        return known or hub_error(
            request, f"{endpoint} answers HTTP {response.status_code} for {request.target}"
        )
    why = first_line(str(error).encode()) or type(error).__name__
    return unreachable(request, endpoint, why)
