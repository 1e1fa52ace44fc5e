"""Every key with its type, default, example and meaning: one record per role, and the rules between its keys."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue, field_validator, model_validator

from roles.settings.base import Record, key
from roles.settings.model import Model
from roles.settings.server_args import ServerArgs
from roles.settings.values import (
    Architectures,
    Auto,
    BrowserName,
    CacheType,
    Duration,
    HostPath,
    Port,
    Size,
    SizeOrShare,
    Text,
    Toolkit,
    check_policies,
    size_in_bytes,
)

ROLES = ("packages", "browser", "llama_cpp", "model", "service", "benchmark")
QUANTIZED = ("q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
# FlashAttention kernels of a plain CUDA build: both caches of the same type, and one of these.
PLAIN_KERNELS = ("f16", "bf16", "q8_0", "q4_0")


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


class Service(Record):
    """How llama-server runs. Names and values are llama.cpp's own."""

    context: int = key(32768, "tokens of context, -c", 122880, ge=256)
    n_cpu_moe: Annotated[int, Field(ge=0)] | Auto = key(
        "auto", "layers whose experts stay on the CPU; auto leaves the split to llama.cpp's -fit", 44
    )
    gpu_layers: Annotated[int, Field(ge=0)] | Auto = key("auto", "-ngl; auto is all of them", 99)
    ubatch: int = key(512, "tokens in a physical batch, -ub", 2048, ge=1)
    cache_type_k: CacheType = key("f16", "type of the K cache", "q4_0")
    cache_type_v: CacheType = key("f16", "type of the V cache", "q4_0")
    cache_ram_mib: int = key(2048, "prompt cache in RAM, MiB; 0 is off", 0, ge=0)
    context_shift: bool = key(False, "drop the oldest messages when the context is full", True)
    flash_attention: Literal["on", "off", "auto"] = key("auto", "-fa", "on")
    jinja: bool = key(True, "use the model's chat template", False)
    threads: Annotated[int, Field(ge=1)] | Auto = key("auto", "-t; auto is one per physical core", 6)
    fit: Literal["on", "off", "auto"] = key(
        "auto", "let llama.cpp fit the model to the device; auto is on while n_cpu_moe is auto", "off"
    )
    load_mode: Literal["auto", "none", "mmap", "mlock", "mmap+mlock", "dio"] = key(
        "auto", "-lm: how the model's file gets into memory; auto is llama.cpp's own choice", "mmap"
    )
    lazy_mode: Literal["auto", "on", "off"] = key("auto", "--lazy-mode; auto is llama.cpp's own choice", "off")
    moe_cache_mib: int = key(0, "--moe-cache-mib (b11480 and later): VRAM for a cache of experts; 0 is off", 400, ge=0)
    temperature: float | None = key(None, "default sampling temperature", 1.0, ge=0)
    top_p: float | None = key(None, "default top-p", 0.95, ge=0, le=1)
    top_k: int | None = key(None, "default top-k", 20, ge=0)
    min_p: float | None = key(None, "default min-p", 0.0, ge=0, le=1)
    server_args: ServerArgs = key(
        (), "further arguments of llama-server, a word each; checked against the release's --help", ["--no-warmup"]
    )
    host: Text = key("127.0.0.1", "address to listen on; beyond loopback only with api_key_file", "192.168.1.20")
    port: Port = key(8091, "port of the HTTP server", 8080)
    api_key_file: HostPath | None = key(
        None, "file on the host with an API key per line, mode 0600 and the host user's own", "~/.config/llama.key"
    )
    service_memory_max: SizeOrShare | Auto = key(
        "auto", "MemoryMax of the unit, a size or a share of the RAM; auto is 75%", "24G"
    )
    service_memory_swap_max: Size = key("0", "MemorySwapMax of the unit", "2G")
    memory_cap_required: bool | Literal["warn"] = key(
        True, "refuse a host on which the cap would not be enforced; 'warn' only says so", "warn"
    )

    @model_validator(mode="after")
    def _one_planner(self) -> Service:
        explicit = self.n_cpu_moe != "auto" or self.gpu_layers != "auto"
        if self.fit == "on" and explicit:
            raise ValueError(
                "fit: 'on' gives up with a mere warning when n_cpu_moe or gpu_layers is set"
                " (llama.cpp#27872); set fit to 'auto', or leave both of them 'auto'"
            )
        return self

    @model_validator(mode="after")
    def _quantized_cache_needs_flash_attention(self) -> Service:
        if self.flash_attention == "off" and self.cache_type_v in QUANTIZED:
            raise ValueError(
                f"flash_attention: 'off' cannot be had with cache_type_v={self.cache_type_v!r}: llama.cpp quantizes the"
                " V cache with FlashAttention only"
            )
        return self

    @model_validator(mode="after")
    def _cap_holds_the_prompt_cache(self) -> Service:
        if self.service_memory_max != "auto" and not self.service_memory_max.endswith("%"):
            cap, cache = size_in_bytes(self.service_memory_max), self.cache_ram_mib << 20
            if cap <= cache:
                raise ValueError(
                    f"service_memory_max: {self.service_memory_max} cannot hold cache_ram_mib={self.cache_ram_mib}"
                )
        return self

    @model_validator(mode="after")
    def _beyond_loopback_only_with_a_key(self) -> Service:
        try:
            loopback = self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            raise ValueError(f"host: {self.host!r} is no address; write one, as in 127.0.0.1 or 192.168.1.20") from None
        if not loopback and self.api_key_file is None:
            raise ValueError(f"host: {self.host} is beyond loopback, and anybody there could use it; set api_key_file")
        return self

    @property
    def needs_all_quants(self) -> bool:
        """Whether this pair of cache types needs the FlashAttention kernels that a plain CUDA build leaves out."""
        pair = (self.cache_type_k, self.cache_type_v)
        return self.flash_attention != "off" and pair != ("f32", "f32") and (
            pair[0] != pair[1] or pair[0] not in PLAIN_KERNELS
        )  # fmt: skip


class Browser(Record):
    """Which browsers get the policy that keeps their local AI model away, and what else they are told."""

    browser_policy: Literal["auto", "off"] | tuple[BrowserName, ...] = key(
        "auto", "auto: the browsers installed; a list: these, installed or not; off: none", ["chrome"]
    )
    browser_policies: Annotated[dict[str, JsonValue], AfterValidator(check_policies)] = key(
        {}, "further policies for the same file, by Chrome's own names", {"BuiltInAIAPIsEnabled": False}
    )
    browser_delete_models: bool = key(
        False, "delete local models on disk, where the policy holds and the browser is closed", True
    )


class Benchmark(Record):
    """What the smoke run measures."""

    benchmark_depths: tuple[Annotated[int, Field(ge=0)], ...] = key(
        (0, 2048), "tokens already in the context when a figure is taken", [0, 32768]
    )
    benchmark_tokens: int = key(64, "tokens generated per figure", 128, ge=2)


def check_role(name: str) -> str:
    if name not in ROLES:
        raise ValueError(f"no role is called {name}; the roles are {', '.join(ROLES)}")
    return name


RoleName = Annotated[str, AfterValidator(check_role)]


class Settings(Record):
    """Everything that the inventory says about one host."""

    llama_cpp: LlamaCpp
    model: Model
    service: Service
    browser: Browser
    benchmark: Benchmark
    only: tuple[RoleName, ...] = key((), "run these roles alone, as in --data only=service,benchmark", ["browser"])

    @model_validator(mode="after")
    def _depths_fit(self) -> Settings:
        deepest = max(self.benchmark.benchmark_depths, default=0) + self.benchmark.benchmark_tokens
        if deepest >= self.service.context:
            raise ValueError(
                f"benchmark_depths: with benchmark_tokens the deepest takes {deepest} tokens, and context="
                f"{self.service.context} must be larger; set smaller depths"
            )
        return self

    @model_validator(mode="after")
    def _cuda_can_hold_the_cache(self) -> Settings:
        if self.llama_cpp.backend == "cuda" and (problem := cuda_refuses(self.service)):
            raise ValueError(problem)
        if "GGML_CUDA_FA_ALL_QUANTS=OFF" in self.llama_cpp.llama_cmake_args and self.service.needs_all_quants:
            raise ValueError(
                "llama_cmake_args: GGML_CUDA_FA_ALL_QUANTS=OFF leaves out the kernels that cache_type_k="
                f"{self.service.cache_type_k!r} with cache_type_v={self.service.cache_type_v!r} needs"
            )
        return self

    def runs(self, role: str) -> bool:
        return not self.only or role in self.only


def cuda_refuses(wanted: Service) -> str | None:
    """The sentence about a cache type for which CUDA has no FlashAttention: it would run on the CPU, silently."""
    for name in ("cache_type_k", "cache_type_v"):
        if getattr(wanted, name) == "iq4_nl":
            return f"{name}: 'iq4_nl' has no CUDA kernel, and attention would run on the CPU; use q4_0"
    return None


RECORDS: dict[str, type[Record]] = {
    "llama_cpp": LlamaCpp,
    "model": Model,
    "service": Service,
    "browser": Browser,
    "benchmark": Benchmark,
}
OWNER = {name: role for role, record in RECORDS.items() for name in record.model_fields} | {"only": ""}
