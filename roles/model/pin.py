"""A file on the Hub as commit, size and sha256: resolved once with the Hub's own client, kept in the lock."""

from __future__ import annotations

import difflib
import re
from typing import Any

from huggingface_hub import HfApi, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from roles.lock import Lock
from roles.settings import Model
from roles.wishes import ModelPin

SECONDS = 30


class CannotPin(Exception):
    """The model could not be resolved; the text says why and what to do."""


def model(wanted: Model, lock: Lock) -> ModelPin | None:
    """None for a file that is on the host already. Asks the Hub only for what the lock lacks. Raises CannotPin."""
    if wanted.model_repo is None or wanted.model_file is None:
        return None
    name = f"{wanted.model_repo} {wanted.model_revision} {wanted.model_file}"
    known = lock.get("model", name)
    if known is None:
        known = _resolve(wanted.hub_endpoint, wanted.model_repo, wanted.model_revision, wanted.model_file)
        lock.put("model", name, known)
    url = hf_hub_url(wanted.model_repo, wanted.model_file, revision=known["commit"], endpoint=wanted.hub_endpoint)
    return ModelPin(wanted.model_repo, wanted.model_file, known["commit"], known["size"], known["sha256"], url)


def _resolve(endpoint: str, repo: str, revision: str, file: str) -> dict[str, Any]:
    try:
        info = HfApi(endpoint=endpoint).model_info(repo, revision=revision, files_metadata=True, timeout=SECONDS)
    except HFValidationError:
        raise CannotPin(f"model_repo={repo!r} is not a name on the Hub; it is written owner/name") from None
    except GatedRepoError:
        raise CannotPin(
            f"{repo} is gated: accept its conditions on {endpoint}/{repo}, then log in on this machine with"
            " `hf auth login` or set HF_TOKEN"
        ) from None
    except RevisionNotFoundError:
        raise CannotPin(f"{repo} has no branch, tag or commit called {revision!r}") from None
    except RepositoryNotFoundError:
        raise CannotPin(
            f"{endpoint} has no model {repo!r}, or it is private and this machine's token may not see it"
        ) from None
    except HfHubHTTPError as error:
        raise CannotPin(f"{endpoint} answered {error.response.status_code} for {repo}; try again later") from None
    except Exception as error:  # the client's HTTP library has its own names for no network, no DNS and bad TLS
        raise CannotPin(f"{endpoint} cannot be reached: {str(error).splitlines()[0]}") from None
    siblings = {sibling.rfilename: sibling for sibling in info.siblings or []}
    if file not in siblings:
        raise CannotPin(_no_such_file(repo, revision, file, list(siblings)))
    sibling = siblings[file]
    if sibling.lfs is None or not re.fullmatch(r"[0-9a-f]{40}", info.sha or ""):
        raise CannotPin(f"{file} in {repo} has no sha256 on the Hub; a GGUF always has one, so this is another file")
    return {"commit": info.sha, "size": sibling.lfs.size, "sha256": sibling.lfs.sha256}


def _no_such_file(repo: str, revision: str, file: str, names: list[str]) -> str:
    models = sorted(name for name in names if name.endswith(".gguf"))
    near = difflib.get_close_matches(file, models, n=3, cutoff=0.3) or models[:3]
    return f"{repo} at {revision} has no file {file!r}; " + (f"it has {', '.join(near)}" if near else "it has no GGUF")
