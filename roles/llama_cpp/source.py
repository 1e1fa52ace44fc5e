"""What is built beside the commit itself: the patches of the inventory, and the page that is shown at the port."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel

from roles.lock import CannotPin, Lock
from roles.settings import Settings
from roles.wishes import Patch, UiPin

# Where llama.cpp's own build takes its ready-made page from (scripts/ui-assets.cmake).
PAGES = "buckets/ggml-org/llama-ui/resolve"


class _Page(BaseModel):
    sha256: str | None


def patches(names: tuple[str, ...], folder: Path) -> tuple[Patch, ...]:
    """The patches by name, relative to the folder of the inventory. Raises CannotPin."""
    found = []
    for name in names:
        path = folder / Path(name).expanduser()
        try:
            found.append(Patch(name, path.read_bytes().decode("utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not a text"
            raise CannotPin(f"llama_patches: {name!r} cannot be read at {path}: {why}") from None
    return tuple(found)


def tag_number(ref: str) -> str | None:
    """The build number, where the ref is one of llama.cpp's tags; a shallow clone knows none."""
    found = re.fullmatch(r"b(\d+)", ref)
    return found[1] if found else None


def page(wanted: Settings, lock: Lock) -> UiPin | None:
    """The ready-made page of the tag; None where none is wanted or none was made. Asks the Hub only for what the lock
    lacks. Raises CannotPin."""
    ref, endpoint = wanted.llama_cpp.llama_ref, wanted.model.hub_endpoint
    if wanted.llama_cpp.web_ui != "prebuilt" or not tag_number(ref):
        return None
    url = f"{endpoint}/{PAGES}/{ref}/dist.tar.gz"
    known = lock.get("web_ui", ref, _Page)
    if known is None:
        known = _Page(sha256=_digest(url + ".sha256"))
        lock.put("web_ui", ref, known.model_dump())
    return UiPin(known.sha256, url) if known.sha256 else None


def _digest(url: str) -> str | None:
    # Here, and not above: most runs have it in the lock, and need not wait for the import.
    import requests

    from roles import fetch

    try:
        with fetch.get(url, {}) as answer:
            status, text = answer.status_code, answer.text
    except requests.RequestException as error:
        if error.response is None:
            raise CannotPin(
                f"the page of llama.cpp's server cannot be had from {url}: {type(error).__name__}; try again, or set"
                " web_ui='off'"
            ) from None
        status, text = error.response.status_code, ""
    if status in (401, 404):  # what the Hub says of what it does not have
        return None
    digest = re.match(r"[0-9a-f]{64}\b", text)
    if digest is None:
        raise CannotPin(f"{url} answered {status} without a sha256; try again, or set web_ui='off'")
    return digest[0]


def without_page(wanted: Settings, ui: UiPin | None) -> str | None:
    """Why there will be no page at the port; None where there will be one, or none is wanted."""
    ref = wanted.llama_cpp.llama_ref
    if wanted.llama_cpp.web_ui != "prebuilt" or ui:
        return None
    if tag_number(ref):
        return f"no page at the port: llama.cpp had no ready-made one for {ref} (make update-pins asks again)"
    return f"no page at the port: ready-made ones are for tags such as b10864, and llama_ref={ref[:12]!r} is none"
