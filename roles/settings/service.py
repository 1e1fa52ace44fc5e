"""The keys of the service role, and the rules between them."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import Field, model_validator

from roles.settings.base import Record, key
from roles.settings.server_args import ServerArgs
from roles.settings.values import Auto, CacheType, HostPath, Port, Size, SizeOrShare, Text, size_in_bytes

QUANTIZED = ("q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
# FlashAttention kernels of a plain CUDA build: both caches of the same type, and one of these.
PLAIN_KERNELS = ("f16", "bf16", "q8_0", "q4_0")


class Service(Record):
    """How llama-server runs. Names and values are llama.cpp's own."""

    context: int = key(32768, "tokens of context, -c", 122880, ge=256)
    n_cpu_moe: Annotated[int, Field(ge=0)] | Auto = key(
        "auto", "layers whose experts stay on the CPU; auto is the fewest with which it fits", 44
    )
    gpu_layers: Annotated[int, Field(ge=0)] | Auto = key(
        "auto", "-ngl; auto is all, or without experts as many as fit", 99
    )
    ubatch: int = key(512, "tokens in a physical batch, -ub", 2048, ge=1)
    cache_type_k: CacheType = key("f16", "type of the K cache", "q4_0")
    cache_type_v: CacheType = key("f16", "type of the V cache", "q4_0")
    cache_ram_mib: int = key(2048, "prompt cache in RAM, MiB; 0 is off", 0, ge=0)
    context_shift: bool = key(False, "drop the oldest messages when the context is full", True)
    flash_attention: Literal["on", "off", "auto"] = key("auto", "-fa", "on")
    jinja: bool = key(True, "use the model's chat template", False)
    threads: Annotated[int, Field(ge=1)] | Auto = key("auto", "-t; auto is one per physical core", 6)
    fit: Literal["on", "off", "auto"] = key(
        "auto", "on leaves the split to llama.cpp's own -fit, unplanned; auto is off", "off"
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
    service_scope: Literal["user", "system"] = key(
        "user", "whose systemd manager runs it: the user's, or the system's, with an account of its own", "system"
    )
    service_memory_max: SizeOrShare | Auto = key(
        "auto",
        "MemoryMax of the unit, a size or a share of the RAM; auto is what the plan needs",
        "24G",
    )
    service_memory_swap_max: Size = key("0", "MemorySwapMax of the unit", "2G")
    service_autostart: bool = key(
        True, "start the service at boot; False leaves starting it to you: systemctl --user start", False
    )
    sleep_idle_seconds: Annotated[int, Field(ge=1)] | None = key(
        None, "--sleep-idle-seconds: unload the model after so many idle seconds, until the next request", 600
    )
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


def cuda_refuses(wanted: Service) -> str | None:
    """The sentence about a cache type for which CUDA has no FlashAttention: it would run on the CPU, silently."""
    for name in ("cache_type_k", "cache_type_v"):
        if getattr(wanted, name) == "iq4_nl":
            return f"{name}: 'iq4_nl' has no CUDA kernel, and attention would run on the CPU; use q4_0"
    return None
