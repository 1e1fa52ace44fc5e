"""A file on the Hub as commit, size and sha256: resolved once with the Hub's own client, kept in the lock."""

from __future__ import annotations

import difflib
import re

from huggingface_hub import HfApi, get_hf_file_metadata, get_token, hf_hub_url
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from pydantic import BaseModel

from roles.lock import Lock
from roles.settings import HUB, Model
from roles.wishes import ModelPin

SECONDS = 30


class Resolved(BaseModel):
    """What the lock keeps of a file on the Hub; size in bytes."""

    commit: str
    size: int
    sha256: str


class CannotPin(Exception):
    """The model could not be resolved; the text says why and what to do."""


def token(wanted: Model) -> str | None:
    """The Hub client's own token (HF_TOKEN, or what `hf auth login` stored), for the Hub's own host alone."""
    return get_token() if wanted.hub_endpoint == HUB else None


def model(wanted: Model, lock: Lock) -> ModelPin | None:
    """None for a file that is on the host already. Asks the Hub only for what the lock lacks. Raises CannotPin."""
    if wanted.model_repo is None or wanted.model_file is None:
        return None
    name = f"{wanted.model_repo} {wanted.model_revision} {wanted.model_file}"
    known = lock.get("model", name, Resolved)
    if known is None:
        known = _resolve(wanted, wanted.model_repo, wanted.model_file)
        lock.put("model", name, known.model_dump())
    url = hf_hub_url(wanted.model_repo, wanted.model_file, revision=known.commit, endpoint=wanted.hub_endpoint)
    return ModelPin(wanted.model_repo, wanted.model_file, known.commit, known.size, known.sha256, url)


def _resolve(wanted: Model, repo: str, file: str) -> Resolved:
    endpoint, revision = wanted.hub_endpoint, wanted.model_revision
    try:
        url = hf_hub_url(repo, file, revision=revision, endpoint=endpoint)
        found = get_hf_file_metadata(url, token=token(wanted) or False, timeout=SECONDS, endpoint=endpoint)
    except HFValidationError:
        raise CannotPin(f"model_repo={repo!r} is not a name on the Hub; it is written owner/name") from None
    except GatedRepoError:
        raise CannotPin(
            f"{repo} is gated: accept its conditions on {endpoint}/{repo}, then run `hf auth login` on this machine"
            " or set HF_TOKEN"
        ) from None
    except RevisionNotFoundError:
        raise CannotPin(f"{repo} has no branch, tag or commit called {revision!r}") from None
    except RepositoryNotFoundError:
        raise CannotPin(
            f"{endpoint} has no model {repo!r}, or it is private and this machine's token may not see it"
        ) from None
    except EntryNotFoundError:
        raise CannotPin(_no_such_file(wanted, repo, file)) from None
    except HfHubHTTPError as error:
        raise CannotPin(f"{endpoint} answered {error.response.status_code} for {repo}; try again later") from None
    except Exception as error:  # the client's HTTP library has its own names for no network, no DNS and bad TLS
        raise CannotPin(f"{endpoint} cannot be reached: {str(error).splitlines()[0]}") from None
    # An LFS file's etag is its sha256; any other file's is a git hash of 40 digits.
    if not found.etag or not re.fullmatch(r"[0-9a-f]{64}", found.etag) or not found.commit_hash or not found.size:
        raise CannotPin(f"{file} in {repo} has no sha256 on the Hub; a GGUF always has one, so this is another file")
    return Resolved(commit=found.commit_hash, size=found.size, sha256=found.etag)


def _no_such_file(wanted: Model, repo: str, file: str) -> str:
    what = f"{repo} at {wanted.model_revision} has no file {file!r}"
    try:
        info = HfApi(endpoint=wanted.hub_endpoint, token=token(wanted) or False).model_info(
            repo, revision=wanted.model_revision, timeout=SECONDS
        )
    except Exception:  # the sentence is true without the names of the others
        return what
    models = sorted(one.rfilename for one in info.siblings or [] if one.rfilename.endswith(".gguf"))
    near = difflib.get_close_matches(file, models, n=3, cutoff=0.3) or models[:3]
    return f"{what}; it has {', '.join(near)}" if near else f"{what}, nor any other GGUF"
