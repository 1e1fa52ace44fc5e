"""The Hub's own pages: the API of models and /resolve/, as the huggingface_hub client and curl know them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from tests.lab.hub import page
from tests.lab.hub.base import Handler
from tests.lab.hub.cdn import signed_link
from tests.lab.hub.faults import Fault
from tests.lab.hub.listing import inventory, refs, sibling, tree

if TYPE_CHECKING:
    from tests.lab.hub.repo import File, Repo

MADE = "2026-01-01T00:00:00.000Z"


class Refused(Exception):
    """The request ends with an error of the Hub: status, X-Error-Code (may be empty), message."""

    def __init__(self, status: int, code: str, message: str, commit: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.commit = status, code, message, commit


class HubHandler(Handler):
    """Answers GET and HEAD of the Hub, and the control requests of the tests."""

    host = "hub"

    def answer(self) -> None:
        """Find the route; a refusal becomes the answer that the Hub gives."""
        # Split before unquoting: a revision may hold a quoted slash.
        words = [unquote(word) for word in self.url_path.strip("/").split("/")]
        try:
            match words:
                case ["api", "whoami-v2"]:
                    self._whoami()
                case ["api", "models", org, name, *rest]:
                    self._api(f"{org}/{name}", rest)
                case ["api", "resolve-cache", "models", org, name, commit, *path]:
                    repo = self._readable(f"{org}/{name}", files=True)
                    commit, file = self._entry(repo, commit, "/".join(path))
                    self._plain_file(commit, file)
                case ["buckets", "ggml-org", "llama-ui", "resolve", tag, name]:
                    self._page(tag, name)
                case [org, name, "resolve", revision, *path] if path:
                    self._resolve(f"{org}/{name}", revision, "/".join(path))
                case _:
                    raise Refused(404, "", "Sorry, we can't find the page you are looking for.")
        except Refused as refused:
            self._refuse(refused)

    def _refuse(self, refused: Refused) -> None:
        headers = {"X-Error-Message": refused.message}
        if refused.code:
            headers["X-Error-Code"] = refused.code
        if refused.commit:
            headers["X-Repo-Commit"] = refused.commit
        if self.url_path.startswith("/api/"):
            self.reply_json({"error": refused.message}, refused.status, headers)
        else:
            self.reply(refused.status, refused.message.encode(), headers)

    def _page(self, tag: str, name: str) -> None:
        content = page.files(tag).get(name)
        if content is None:
            raise Refused(404, "EntryNotFound", "Entry not found")
        self.reply(200, content, {})

    def _user(self) -> str | None:
        """The token of the request, or None without one. An unknown token is refused even for public things."""
        header = self.headers.get("Authorization")
        if header is None:
            return None
        token = header.removeprefix("Bearer ")
        if token not in self.lab.users:
            raise Refused(401, "", "Invalid credentials in Authorization header")
        return token

    def _readable(self, name: str, *, files: bool) -> Repo:
        """The repository, if this request may see it (`files`: and read its files)."""
        user = self._user()
        repo = self.lab.repos.get(name)
        accepted = user is not None and self.lab.users[user]
        if repo is None or (repo.private and not accepted):
            if user is None:
                raise Refused(401, "RepoNotFound", "Invalid username or password.")
            raise Refused(404, "RepoNotFound", "Repository not found")
        if files and repo.gated and not accepted:
            restricted = f"Access to model {name} is restricted"
            if user is None:
                raise Refused(
                    401, "GatedRepo", f"{restricted}. You must have access to it and be authenticated to access it."
                )
            raise Refused(403, "GatedRepo", f"{restricted} and you are not in the authorized list.")
        return repo

    def _commit(self, repo: Repo, revision: str) -> str:
        commit = repo.resolve(revision)
        if commit is None:
            raise Refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit

    def _entry(self, repo: Repo, revision: str, path: str) -> tuple[str, File]:
        commit = self._commit(repo, revision)
        file = repo.commits[commit].get(path)
        if file is None:
            raise Refused(404, "EntryNotFound", "Entry not found", commit)
        return commit, file

    def _renamed(self, name: str) -> bool:
        """Redirect a request to a repository's old name, by a relative Location as the Hub does."""
        new = self.lab.renames.get(name)
        if new is None:
            return False
        location = self.path.replace(f"/{name}", f"/{new}", 1)
        self.reply(307, f"Temporary Redirect. Redirecting to {location}".encode(), {"Location": location})
        return True

    def _resolve(self, name: str, revision: str, path: str) -> None:
        if self._renamed(name):
            return
        repo = self._readable(name, files=True)
        commit, file = self._entry(repo, revision, path)
        if not file.lfs:
            # Since 2025 the Hub sends small files through a cache of its own, by a relative redirect.
            self._redirect(307, f"/api/resolve-cache/models/{name}/{commit}/{quote(path)}", commit, file)
            return
        link = signed_link(self.lab, name, path, file, expired=self.fault("expired") is not None)
        self._redirect(302, link, commit, file)

    def _redirect(self, status: int, location: str, commit: str, file: File) -> None:
        etag = file.sha256 if file.lfs else file.git_oid
        headers = {
            "Location": location,
            "X-Repo-Commit": commit,
            "X-Linked-Size": str(file.size),
            "X-Linked-Etag": f'"{etag}"',
            "Accept-Ranges": "bytes",
        }
        reason = "Found" if status == 302 else "Temporary Redirect"
        self.reply(status, f"{reason}. Redirecting to {location}".encode(), headers)

    def _plain_file(self, commit: str, file: File) -> None:
        self.reply_file(
            file, f'"{file.git_oid}"', {"X-Repo-Commit": commit, "Content-Type": "text/plain; charset=utf-8"}
        )

    def _whoami(self) -> None:
        user = self._user()
        if user is None:
            raise Refused(401, "", "Invalid username or password.")
        self.reply_json({"type": "user", "name": "lab", "auth": {"accessToken": {"role": "read"}}})

    def _api(self, name: str, rest: list[str]) -> None:
        if self._renamed(name):
            return
        repo = self._readable(name, files=False)
        match rest:
            case []:
                self.reply_json(self._info(repo, "main"))
            case ["revision", revision]:
                self.reply_json(self._info(repo, revision))
            case ["tree", revision, *folder]:
                self.reply_json(tree(repo.commits[self._commit(repo, revision)], "/".join(folder), self._recursive()))
            case ["refs"]:
                self.reply_json(refs(repo))
            case _:
                raise Refused(404, "", "Sorry, we can't find the page you are looking for.")

    def _recursive(self) -> bool:
        return self.query.get("recursive", "").lower() in ("1", "true")

    def _info(self, repo: Repo, revision: str) -> dict[str, Any]:
        commit = self._commit(repo, revision)
        blobs = self.query.get("blobs", "").lower() in ("1", "true")
        return {
            "_id": commit[:24],
            "id": repo.name,
            "modelId": repo.name,
            "author": repo.name.split("/")[0],
            "sha": commit,
            "private": repo.private,
            "gated": "manual" if repo.gated else False,
            "disabled": False,
            "tags": ["gguf"],
            "lastModified": MADE,
            "createdAt": MADE,
            "siblings": [sibling(path, file, blobs) for path, file in repo.commits[commit].items()],
        }

    def control(self) -> None:
        """The tests' own requests: /_lab/counters, /_lab/faults, /_lab/refs, /_lab/repos, /_lab/reset."""
        try:
            data = json.loads(self.request_body or b"null")
            self.reply_json(self._control(f"{self.command} {self.url_path}", data))
        except (KeyError, TypeError, ValueError) as error:
            self.reply_json({"error": str(error)}, 400)

    def _control(self, request: str, data: Any) -> object:
        lab = self.lab
        match request:
            case "GET /_lab/counters":
                return lab.counters.snapshot()
            case "POST /_lab/faults":
                lab.faults.add(*(Fault(**fault) for fault in (data if isinstance(data, list) else [data])))
            case "POST /_lab/refs":
                lab.repos[data["repo"]].move(data.get("branch", "main"), data["commit"])
            case "POST /_lab/reset":
                lab.reset()
            case "GET /_lab/repos":
                return {name: inventory(repo) for name, repo in lab.repos.items()}
            case "GET /_lab/faults":
                pass
            case _:
                raise ValueError(f"unknown control request: {request}")
        return {"pending": lab.faults.pending()}
