"""The keys of the llama_cpp role, and the rules between them."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import field_validator, model_validator

from roles.settings.base import Record, key
from roles.settings.values import Architectures, Duration, Size, Text, Toolkit


class LlamaCpp(Record):
    """Which llama.cpp is built, and how."""

    backend: Literal["auto", "cuda", "cpu", "rpc"] = key(
        "auto", "what holds the layers: auto is cuda where there is an NVIDIA GPU and cpu otherwise", "cuda"
    )
    llama_repo: Text = key("https://github.com/ggml-org/llama.cpp", "git URL of the source", "https://host/fork.git")
    llama_ref: Text = key("b10864", "tag, branch or commit; resolved once and kept in the lock", "master")
    llama_patches: tuple[Text, ...] = key(
        (), "patches to the source, applied in order; files, beside the inventory unless absolute", ["fix.patch"]
    )
    llama_cmake_args: tuple[Text, ...] = key((), "further cmake arguments, without -D", ["GGML_NATIVE=OFF"])
    web_ui: Literal["prebuilt", "build", "off"] = key(
        "prebuilt",
        "the page at the port: llama.cpp's own ready-made one where its tag has one, or built with npm",
        "off",
    )
    cuda_architectures: Architectures = key("auto", "CMAKE_CUDA_ARCHITECTURES; auto: of each GPU present", "86-real")
    cuda_toolkit: Toolkit = key(
        "auto",
        "auto: the newest on the host that fits; a folder; or wheel:13.2, NVIDIA's wheels, without root",
        "wheel:13.2",
    )
    rpc_servers: tuple[Text, ...] = key((), "host:port of each ggml-rpc-server, for backend rpc", ["127.0.0.1:50052"])
    build_time_max: Duration = key("3h", "a build that takes longer is killed, whole", "90min")
    keep_releases: int = key(3, "releases of llama.cpp that stay on the host, what serves included", 2, ge=1)
    releases_disk_max: Size = key(
        "10G", "disk that they may take together; what serves and what would come back are never removed", "4G"
    )

    @field_validator("llama_repo")
    @classmethod
    def _no_secret_in_the_url(cls, repo: str) -> str:
        if re.match(r"https?://[^/]*@|\w+://[^/@]*:[^/@]*@", repo):
            raise ValueError("holds a name or a secret, and is shown and logged; leave that to git's credential helper")
        return repo

    @model_validator(mode="after")
    def _rpc_has_servers_on_loopback(self) -> LlamaCpp:
        if (self.backend == "rpc") != bool(self.rpc_servers):
            raise ValueError("backend: 'rpc' and rpc_servers belong together: set both or neither")
        for server in self.rpc_servers:
            if not re.fullmatch(r"(127\.\d+\.\d+\.\d+|localhost):\d+", server):
                raise ValueError(
                    f"rpc_servers: {server!r} is not on loopback, and llama.cpp's RPC protocol has no authentication"
                )
        return self
