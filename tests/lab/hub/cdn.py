"""The CDN of the lab's Hub: hands out LFS files to whoever holds a signed link that has not expired."""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from tests.lab.hub.base import Handler, Lab

if TYPE_CHECKING:
    from tests.lab.hub.repo import File

KEY = b"not a secret: it signs the links of a lab"
PATH = re.compile(r"/repos/(?P<repo>[^/]+/[^/]+)/(?P<sha256>[0-9a-f]{64})")


def _signature(path: str, expires: str) -> str:
    return hmac.new(KEY, f"{path}?{expires}".encode(), hashlib.sha256).hexdigest()


def signed_link(lab: Lab, repo: str, path: str, file: File, expired: bool = False) -> str:
    """URL of `file` on the CDN, good for `lab.link_seconds` from now (or of late, if `expired`)."""
    url_path = f"/repos/{repo}/{file.sha256}"
    expires = str(int(time.time() + (-60 if expired else lab.link_seconds)))
    name = path.rsplit("/", 1)[-1]
    query = {
        "response-content-disposition": f"inline; filename*=UTF-8''{quote(name)}; filename=\"{name}\";",
        "Expires": expires,
        "Signature": _signature(url_path, expires),
        "Key-Pair-Id": "LAB",
    }
    return f"{lab.cdn_url}{url_path}?{urlencode(query)}"


class CdnHandler(Handler):
    """Answers GET and HEAD of signed links."""

    host = "cdn"

    def answer(self) -> None:
        """The file, or 403 without a good link, or 404."""
        expires = self.query.get("Expires", "")
        if not hmac.compare_digest(self.query.get("Signature", ""), _signature(self.url_path, expires)):
            self._refuse("SignatureDoesNotMatch")
        elif float(expires) < time.time():
            self._refuse("AccessDenied: Request has expired")
        elif (file := self._file()) is None:
            self.reply(404, b"no such object\n")
        else:
            # A CDN knows its objects by its own ETag, which says nothing about the content.
            etag = '"' + hashlib.md5(file.sha256.encode(), usedforsecurity=False).hexdigest() + '-3"'
            disposition = self.query.get("response-content-disposition", "inline")
            self.reply_file(file, etag, {"Content-Disposition": disposition})

    def _file(self) -> File | None:
        match = PATH.fullmatch(self.url_path)
        repo = self.lab.repos.get(match["repo"]) if match else None
        if match is None or repo is None:
            return None
        files = (file for tree in repo.commits.values() for file in tree.values())
        return next((file for file in files if file.lfs and file.sha256 == match["sha256"]), None)

    def _refuse(self, code: str) -> None:
        body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code></Error>\n'
        self.reply(403, body.encode(), {"Content-Type": "application/xml"})
