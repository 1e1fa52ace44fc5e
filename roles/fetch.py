"""Requests of this machine to the Hub and to other hosts, and what they may carry. Imported where one is made: it
takes half a second.

~/.netrc is not read: requests would put its passwords in the place of the Hub's token, and look them up anew for every
host that a redirect leads to (requests.sessions, `rebuild_auth`). Proxies and certificates stay the environment's.
"""

from __future__ import annotations

import requests
from requests import PreparedRequest, Response

SECONDS = 30  # without an answer


class _Session(requests.Session):
    def rebuild_auth(self, prepared_request: PreparedRequest, response: Response) -> None:
        """What was meant for one host goes to no other."""
        before, now = str(response.request.url), str(prepared_request.url)
        if self.should_strip_auth(before, now):  # type: ignore[no-untyped-call]
            prepared_request.headers.pop("Authorization", None)


def _as_it_is(request: PreparedRequest) -> PreparedRequest:
    return request


def get(url: str, headers: dict[str, str]) -> Response:
    """The answer, its body still to be read; to be closed. Raises requests.RequestException, also for a status that
    is no success."""
    headers = {"Accept-Encoding": "identity", **headers}
    with _Session() as session:
        answer = session.get(url, headers=headers, auth=_as_it_is, timeout=SECONDS, stream=True)
    try:
        answer.raise_for_status()
    except requests.RequestException:
        answer.close()
        raise
    return answer
