"""A model as commit, size and sha256 per file: resolved once with the Hub's own client, kept in the lock."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlsplit

from pydantic import BaseModel, Field

from roles.lock import CannotPin, Lock
from roles.model import hub, names
from roles.model.hub import Tell
from roles.settings import Model
from roles.wishes import ModelPin, PinnedFile


class ResolvedFile(BaseModel):
    """One file; size in bytes."""

    path: str
    size: Annotated[int, Field(gt=0)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Resolved(BaseModel):
    """What the lock keeps of a model. `commit` is empty for one that is not from the Hub."""

    commit: str
    files: Annotated[list[ResolvedFile], Field(min_length=1)]


def model(wanted: Model, lock: Lock, tell: Tell) -> ModelPin | None:
    """None for a file that is on the host already. Asks only for what the lock lacks; `tell` says what is waited for.
    Raises CannotPin."""
    if wanted.model_path is not None:
        return None
    name = _name(wanted)
    known = lock.get("model", name, Resolved)
    if known is None:
        known = _on_the_hub(wanted, tell) if wanted.model_repo else _anywhere(wanted, tell)
        lock.put("model", name, known.model_dump())
    return ModelPin(
        source=wanted.model_repo or urlsplit(wanted.model_url or "").hostname or "",
        commit=known.commit or known.files[0].sha256,
        folder=_folder(name, known),
        files=tuple(
            PinnedFile(one.path, one.size, one.sha256, url(wanted, known.commit, one.path)) for one in known.files
        ),
    )


def url(wanted: Model, commit: str, path: str) -> str:
    """Where a file is, by its commit: what stands there never changes. As every client takes it, in ASCII."""
    if wanted.model_repo is None:
        written = str(wanted.model_url)
    else:
        written = f"{wanted.hub_endpoint.rstrip('/')}/{wanted.model_repo}/resolve/{commit}/{quote(path)}"
    parts = urlsplit(written)
    host = parts.netloc if parts.netloc.isascii() else parts.netloc.encode("idna").decode()
    return quote(parts._replace(netloc=host).geturl(), safe="!#$%&'()*+,/:;=?@[]~")  # those that requests leaves


def locked(lock: Lock) -> tuple[str, ...]:
    """The folders of all models that the lock refers to, of whichever host. Raises LockError."""
    found = {name: lock.get("model", name, Resolved) for name in lock.names("model")}
    return tuple(_folder(name, known) for name, known in found.items() if known)


def _name(wanted: Model) -> str:
    """The entry's name in the lock; a query may hold a secret."""
    if wanted.model_repo:
        return f"{wanted.model_repo} {wanted.model_revision} {wanted.model_file}"
    at = urlsplit(wanted.model_url or "")
    return f"{at.scheme}://{at.netloc}{at.path} {wanted.model_sha256}"


def _folder(name: str, known: Resolved) -> str:
    """A folder of its own per repository and commit, so that an update never replaces what still serves."""
    owner = name.split(" ")[0].replace("/", "--") if known.commit else "url"
    return f"{owner}/{(known.commit or known.files[0].sha256)[:12]}"


def smaller(wanted: Model, now: ModelPin, tell: Tell) -> list[ModelPin]:
    """The models beside it at the pinned commit that have fewer bytes, the nearest first: those whose names begin alike
    where there are any. Asks the Hub. Raises CannotPin."""
    info, found = _listed(wanted, now.commit, tell), []
    for paths in names.sets(one.rfilename for one in info.siblings or []).values():
        try:
            files = _files(info, names.whole(paths, now.source), now.source)
        except (CannotPin, ValueError):
            continue  # not whole, or empty
        pinned = tuple(PinnedFile(one.path, one.size, one.sha256, url(wanted, now.commit, one.path)) for one in files)
        found.append(replace(now, files=pinned, anatomy=None))
    found = sorted((one for one in found if one.size < now.size), key=lambda one: -one.size)
    return [one for one in found if names.family(one.file) == names.family(now.file)] or found


def _on_the_hub(wanted: Model, tell: Tell) -> Resolved:
    repo, revision = str(wanted.model_repo), wanted.model_revision
    info = _listed(wanted, revision, tell)
    there = [one.rfilename for one in info.siblings or []]
    paths = names.chosen(str(wanted.model_file), there, f"{repo} at {revision}")
    return Resolved(commit=info.sha, files=_files(info, paths, repo))


def _listed(wanted: Model, revision: str, tell: Tell) -> Any:
    """What the Hub says of a repository and its files. Raises CannotPin."""
    # Here, and not above: a run whose lock has all spares the half second that this takes.
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError

    repo, token = str(wanted.model_repo), hub.token(wanted)
    api = HfApi(endpoint=wanted.hub_endpoint, token=token or False)

    def ask() -> Any:
        return api.model_info(repo, revision=revision, files_metadata=True, timeout=hub.SECONDS)

    try:
        return hub.patiently(ask, tell)
    except HFValidationError:
        raise CannotPin(f"model_repo={repo!r} is not a name on the Hub; it is written owner/name") from None
    except Exception as error:  # the client's HTTP library has its own names for no network, no DNS and bad TLS
        near = _near(api, repo, revision) if hub.code_of(error) == "RevisionNotFound" else ""
        raise CannotPin(hub.sentence(error, wanted, token) + near) from None


def _files(info: Any, paths: list[str], repo: str) -> list[ResolvedFile]:
    """Size and sha256 of some files of a listing. Raises CannotPin."""
    siblings, files = {one.rfilename: one for one in info.siblings}, []
    for path in paths:
        lfs = siblings[path].lfs
        if lfs is None or not info.sha:
            raise CannotPin(
                f"{path} in {repo} has no sha256 on the Hub; a GGUF always has one, so this is another file"
            )
        files.append(ResolvedFile(path=path, size=lfs.size, sha256=lfs.sha256))
    return files


def _near(api: Any, repo: str, revision: str) -> str:
    """The branches and tags that there are, the nearest first; nothing where they cannot be listed."""
    try:
        refs = api.list_repo_refs(repo)
    except Exception:  # the sentence is true without them
        return ""
    there = [one.name for one in (*refs.branches, *refs.tags)]
    return f"; it has {', '.join(difflib.get_close_matches(revision, there, n=3, cutoff=0.3) or there[:3])}"


def _anywhere(wanted: Model, tell: Tell) -> Resolved:
    from requests import RequestException

    from roles import fetch

    at = url(wanted, "", "")
    host, name = urlsplit(at).hostname, unquote(urlsplit(at).path).rsplit("/", 1)[-1]

    def ask() -> str:
        with fetch.get(at, {"Range": "bytes=0-3"}) as answer:
            if answer.headers.get("Content-Type", "").startswith("text/html"):
                raise CannotPin(f"{host} sends a web page and not {name}; is there a login page in this network?")
            if next(answer.iter_content(4), b"") != b"GGUF":
                raise CannotPin(f"{name} at {host} is not a GGUF: it does not begin like one")
            told = answer.headers.get("Content-Range", "").rpartition("/")[2]
            return told or answer.headers.get("Content-Length", "")

    try:
        size = hub.patiently(ask, tell)
    except RequestException as error:
        raise CannotPin(hub.sentence(error, wanted, None)) from None
    if not size.isdigit() or int(size) == 0:
        raise CannotPin(f"{host} does not tell how big {name} is, so its download cannot be planned")
    return Resolved(commit="", files=[ResolvedFile(path=name, size=int(size), sha256=str(wanted.model_sha256))])
