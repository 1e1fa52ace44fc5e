"""The lab's Hub as one object: two listeners with their threads, and what tests do to them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tests.lab.hub.base import Lab, Server
from tests.lab.hub.cdn import CdnHandler
from tests.lab.hub.faults import Fault
from tests.lab.hub.site import HubHandler

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.lab.hub.repo import Repo

TOKEN = "hf_labtoken"  # accepted by every gated repository
STRANGER = "hf_stranger"  # known to the Hub, accepted by none
LOOPBACK = ("127.0.0.1", 0)


class Hub:
    """A Hub and its CDN, bound to exactly the two given addresses, running between `with` and its end.

    `repos` are served under their names; `renames` maps old names to new ones. `cdn_name` is the host name that
    redirects carry (its address by default). Every other token than those in `users` is unknown to the Hub; the
    value says whether gated and private repositories accept it.
    """

    def __init__(
        self,
        repos: Iterable[Repo],
        listen: tuple[str, int] = LOOPBACK,
        cdn: tuple[str, int] = LOOPBACK,
        *,
        cdn_name: str | None = None,
        renames: Mapping[str, str] | None = None,
        users: Mapping[str, bool] | None = None,
        link_seconds: float = 3600.0,
    ) -> None:
        known = {TOKEN: True, STRANGER: False} if users is None else dict(users)
        self._lab = Lab({repo.name: repo for repo in repos}, dict(renames or {}), known, link_seconds)
        self._listen, self._cdn, self._cdn_name = listen, cdn, cdn_name or cdn[0]
        self._servers: list[Server] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Hub:
        try:
            self._servers.append(Server(self._listen, HubHandler, self._lab))
            self._servers.append(Server(self._cdn, CdnHandler, self._lab))
        except OSError:
            for server in self._servers:
                server.server_close()
            raise
        self._lab.cdn_url = f"http://{self._cdn_name}:{self._servers[1].server_port}"
        for server in self._servers:
            # The interval is how long closing may take.
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), name=f"lab {server.server_port}")
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        self._lab.closing.set()  # ends every stall and wait
        for server in self._servers:
            server.close()
        for thread in self._threads:
            thread.join()

    @property
    def url(self) -> str:
        """The endpoint, as HF_ENDPOINT wants it."""
        return f"http://{self._listen[0]}:{self._servers[0].server_port}"

    @property
    def cdn_url(self) -> str:
        """The beginning of every link to the CDN."""
        return self._lab.cdn_url

    def repo(self, name: str) -> Repo:
        """A repository that is served, to look at or to commit to."""
        return self._lab.repos[name]

    def add(self, *repos: Repo) -> None:
        """Serve more repositories from now on."""
        self._lab.repos.update({repo.name: repo for repo in repos})

    def fault(self, kind: str, **details: Any) -> None:
        """Arrange for one fault; see Fault for its fields."""
        self._lab.faults.add(Fault(kind, **details))

    def reset(self) -> None:
        """Forget all faults and counts, and put moved branches back where they were at the start."""
        self._lab.reset()

    def counters(self) -> dict[str, Any]:
        """What was seen and sent so far; see Counters."""
        return self._lab.counters.snapshot()

    @property
    def failures(self) -> list[str]:
        """Exceptions inside the lab's own handlers: always empty unless the lab itself is at fault."""
        return self._lab.failures
