"""What the Hub says when it says no, as a sentence with its remedy; and how long it is asked again."""

from __future__ import annotations

import logging
import re
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from roles.model.transfer_program import wait_asked
from roles.settings import HUB, Model

SECONDS = 30  # without an answer
PAUSES = (1, 2, 4, 8)  # seconds between two tries where the Hub does not say how long
LONGEST = 330  # seconds that a rate limit is waited for; the Hub's own last for 300
LOGIN = "run `hf auth login` on this machine or set HF_TOKEN"

T = TypeVar("T")
Tell = Callable[[str], None]


def token(wanted: Model) -> str | None:
    """The Hub client's own token (HF_TOKEN, or what `hf auth login` stored): for the Hub's own host, and for the one
    that the inventory names. Never for a model_url."""
    if wanted.model_repo and wanted.hub_endpoint.rstrip("/") in (HUB, (wanted.hub_token_for or HUB).rstrip("/")):
        from huggingface_hub import get_token  # here, and not above: importing it takes half a second

        return get_token()
    return None


def patiently(ask: Callable[[], T], tell: Tell) -> T:
    """What `ask` returns; asked again after a rate limit, a failure of the server or a broken connection. Raises what
    it raised last."""
    for name in ("urllib3", "httpx2", "httpcore2"):
        # At DEBUG, which is pyinfra's --debug-all, they log every address, and signed links are secrets.
        logging.getLogger(name).setLevel(logging.WARNING)
    pauses = list(PAUSES)
    while True:
        try:
            return ask()
        except Exception as error:
            status, wait = status_of(error), _wait_asked(error)
            again = (status is None and _broke_off(error)) or status in (408, 429) or (status or 0) >= 500
            again = again or (status == 403 and _expired(error))
            if not again or not pauses or wait > LONGEST:
                raise
            seconds = max(pauses.pop(0), wait)
            what = f"it answered {status}" if status else "the connection broke off"
            tell(f"the Hub is asked again in {seconds} s: {what}")
            time.sleep(seconds)


def status_of(error: BaseException) -> int | None:
    """The HTTP status behind an error; the client wraps some of them in a FileNotFoundError."""
    response = _response(error)
    return int(response.status_code) if response is not None else None


def code_of(error: BaseException) -> str:
    """The Hub's own name of an error: GatedRepo, RepoNotFound, RevisionNotFound, EntryNotFound, or nothing."""
    response = _response(error)
    return str(response.headers.get("X-Error-Code", "")) if response is not None else ""


def sentence(error: BaseException, wanted: Model, token: str | None) -> str:
    """Why the Hub, or the host of model_url, gave nothing; and what to do."""
    status, repo = status_of(error), wanted.model_repo
    endpoint = wanted.hub_endpoint if repo else _host(wanted.model_url or "")
    if status is None:
        return _network(error, _host(endpoint))
    if status == 429:
        return f"{endpoint} has answered too many requests from here (429); try again later, or {LOGIN}"
    if status == 416:
        return f"{endpoint} has fewer bytes of the file than its entry in the lock says; it was cut off, or delete that"
    if status >= 500:
        return f"{endpoint} answered {status} {len(PAUSES) + 1} times; try again later"
    if repo is None:
        return f"{endpoint} answered {status} for model_url; look whether it still stands there"
    return _refused(status, code_of(error), wanted, token)


def _refused(status: int, code: str, wanted: Model, token: str | None) -> str:
    repo, endpoint = wanted.model_repo, wanted.hub_endpoint
    may_have = "" if endpoint == HUB or wanted.hub_token_for else f" and set hub_token_for={endpoint!r}"
    if code == "GatedRepo" and token:
        return (
            f"{repo} is gated, and the account of this machine's token may not read it: accept its conditions on"
            f" {endpoint}/{repo} with that account"
        )
    if code == "GatedRepo":
        return f"{repo} is gated: accept its conditions on {endpoint}/{repo}, then {LOGIN}{may_have}"
    if code == "RevisionNotFound":
        return f"{repo} has no branch, tag or commit called {wanted.model_revision!r}"
    if code == "EntryNotFound":
        return f"{repo} does not have {wanted.model_file!r} any more at the commit in the lock; delete that entry"
    if status == 401 and token and code != "RepoNotFound":
        return f"{endpoint} refuses this machine's token (401): {LOGIN} anew, or unset it for a public repository"
    if status in (401, 404) or code == "RepoNotFound":
        private = "this machine's token may not see it" if token else f"it needs a token: {LOGIN}{may_have}"
        return f"{endpoint} has no model {repo!r}, or it is private and {private}"
    return f"{endpoint} refuses {repo} ({status}); look at {endpoint}/{repo}"


def _network(error: BaseException, host: str) -> str:
    chain = list(_chain(error))
    text = " ".join(str(one) for one in chain)
    if any("proxy" in type(one).__name__.lower() for one in chain):
        return f"the proxy on the way to {host} does not let this through; look at HTTPS_PROXY on this machine"
    if "WRONG_VERSION_NUMBER" in text:
        return f"{host} does not speak https there; look at hub_endpoint or model_url"
    if any(isinstance(one, ssl.SSLError) for one in chain) or "CERTIFICATE" in text.upper():
        return (
            f"the certificate of {host} is not trusted on this machine; where a proxy looks into TLS, name its"
            " certificates in SSL_CERT_FILE and REQUESTS_CA_BUNDLE"
        )
    if any(isinstance(one, socket.gaierror) for one in chain) or re.search(
        r"Failed to resolve|Name or service|Temporary failure in name|nodename nor", text
    ):
        return f"the name {host} cannot be resolved; look at hub_endpoint or model_url, and at this machine's DNS"
    if "refused" in text:
        return f"{host} cannot be reached: it refuses the connection"
    if re.search(r"time|timed out", " ".join(type(one).__name__.lower() for one in chain)):
        return f"{host} cannot be reached: no answer within {SECONDS} s"
    return f"{host} cannot be reached: {type(error).__name__}"


def _broke_off(error: BaseException) -> bool:
    names = " ".join(type(one).__name__ for one in _chain(error))
    return (
        re.search(r"RemoteProtocol|ReadError|ConnectionReset|RemoteDisconnected|ReadTimeout|Chunked", names) is not None
    )


def _expired(error: BaseException) -> bool:
    """Whether it was not the Hub that refused, but the host that it had sent us to by a link."""
    return not code_of(error) and bool(getattr(_response(error), "history", None))


def _response(error: BaseException) -> Any:
    return next((found for one in _chain(error) if (found := getattr(one, "response", None)) is not None), None)


def _wait_asked(error: BaseException) -> int:
    response = _response(error)
    return wait_asked(response.headers) if response is not None else 0


def _chain(error: BaseException) -> Any:
    """The error and what it was made of: libraries wrap one another's, some as an argument."""
    seen: list[BaseException] = []
    todo: list[Any] = [error]
    while todo:
        one = todo.pop(0)
        if isinstance(one, BaseException) and one not in seen:
            seen.append(one)
            todo += [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]
    return seen


def _host(url: str) -> str:
    return urlsplit(url).hostname or url
