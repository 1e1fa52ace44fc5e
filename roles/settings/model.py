"""The keys of the model role, and the rules between them."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from pydantic import model_validator

from roles.settings.base import Record, key
from roles.settings.values import Duration, HostPath, Size, Text

HUB = "https://huggingface.co"
# One part of a model in several files, as llama.cpp's gguf-split names it.
SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


class Model(Record):
    """Which GGUF is served, and where it comes from."""

    model_repo: Text | None = key(None, "repository on the Hub", "unsloth/Qwen3.6-35B-A3B-GGUF")
    model_file: Text | None = key(
        None,
        "path of the GGUF there (of several parts any one), or a quantization that only one has",
        "Qwen3.6-35B-A3B-UD-IQ2_M.gguf",
    )
    model_revision: Text = key("main", "branch, tag or commit; resolved once and kept in the lock", "v1")
    model_url: Text | None = key(
        None, "a GGUF anywhere else, instead of model_repo; with model_sha256", "https://host.example/mine.gguf"
    )
    model_sha256: Text | None = key(
        None, "sha256 of the file at model_url, 64 hexadecimal digits", "0123456789abcdef" * 4
    )
    model_path: HostPath | None = key(
        None, "a GGUF that is on the host already, instead of model_repo; ~ is the host user's home", "~/mine.gguf"
    )
    model_keep: int = key(
        2, "downloaded models to keep, the wanted one included; what something refers to stays anyway", 1, ge=1
    )
    hub_endpoint: Text = key(HUB, "URL of the Hub or of a mirror", "https://mirror.example")
    hub_token_for: Text | None = key(
        None,
        "a hub_endpoint that shall get the Hub's token too; else only the Hub's own host does",
        "https://hub.example",
    )
    download_rate_max: Size | None = key(None, "bytes a second that a download may take", "5M")
    download_time_max: Duration = key("24h", "a download that takes longer is stopped; what has come is kept", "2h")

    @model_validator(mode="after")
    def _names_are_the_hubs(self) -> Model:
        if self.model_repo and not re.fullmatch(r"[\w.-]+/[\w.-]+", self.model_repo):
            raise ValueError(f"model_repo: {self.model_repo!r} is not a name on the Hub; it is written owner/name")
        name = self.model_file
        quantization = name and re.fullmatch(r"\w[\w.-]*", name)
        if name and not quantization and (".." in name.split("/") or name[0] == "/" or not name.endswith(".gguf")):
            raise ValueError(
                f"model_file: {name!r} is neither the path of a .gguf in a repository nor a quantization, as in Q4_K_M"
            )
        return self

    @model_validator(mode="after")
    def _one_source(self) -> Model:
        if [self.model_path, self.model_repo, self.model_url].count(None) != 2:
            raise ValueError("model_path, model_repo, model_url: set exactly one of the three")
        if (self.model_repo is None) != (self.model_file is None):
            raise ValueError("model_repo, model_file: one without the other names no model")
        if (self.model_url is None) != (self.model_sha256 is None):
            raise ValueError("model_url, model_sha256: one without the other is no pin; set both")
        return self

    @model_validator(mode="after")
    def _url_is_one(self) -> Model:
        if self.model_sha256 and not re.fullmatch(r"[0-9a-f]{64}", self.model_sha256):
            raise ValueError(f"model_sha256: {self.model_sha256!r} is not 64 hexadecimal digits in small letters")
        if self.model_url and not _names_a_gguf(self.model_url):
            raise ValueError(
                "model_url: write http(s)://host/path/name.gguf, without a user or password in it; it is not shown here"
                " because it may hold a secret"
            )
        if self.model_url and SHARD.search(urlsplit(self.model_url).path):
            raise ValueError("model_url: a model in several files can only come from a repository; set model_repo")
        for name in ("hub_endpoint", "hub_token_for"):
            value = getattr(self, name)
            if value and not re.fullmatch(r"https?://[^/@?#\s]+(/[^@?#\s]*)?", value):
                raise ValueError(f"{name}: {value!r} is not the URL of a Hub, as in https://huggingface.co")
        return self


def _names_a_gguf(url: str) -> bool:
    try:
        parts = urlsplit(url)
        parts.netloc.encode("idna")
    except ValueError:
        return False
    plain = (
        unquote(parts.path).isprintable()
        and parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and "@" not in parts.netloc
    )
    return (
        plain and re.fullmatch(r".*/[\w][\w.+~%-]*\.gguf", parts.path) is not None and "%2F" not in parts.path.upper()
    )
