"""What the inventory may say: every key with its type, default, unit and meaning, one record per role.

The keys are flat, as pyinfra's data is; `of` takes the data of one host and returns its `Settings`,
`refuse_bad` checks all hosts before any command runs.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

Auto = Literal["auto"]
ROLES = ("packages", "browser", "llama_cpp", "model", "service", "benchmark")
HUB = "https://huggingface.co"
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

# Data that belongs to pyinfra and its connectors, not to Paddock.
FOREIGN = re.compile(r"_|(ssh|docker|podman|dockerssh|podmanssh|chroot|local|fake|vagrant|terraform)_")


def size_in_bytes(text: str) -> int:
    """`24G` as bytes; K, M, G and T count by 1024, as in systemd. Raises ValueError."""
    match = re.fullmatch(r"([0-9]+)([KMGT]?)", text)
    if match is None:
        raise ValueError(f"{text!r} is not a size; write digits and K, M, G or T, as in 24G")
    return int(match[1]) * UNITS[match[2]]


def _is_size(text: str) -> str:
    size_in_bytes(text)
    return text


def _is_one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line without control characters")
    if text.startswith("-"):
        raise ValueError("must not begin with a dash: it would be read as an option")
    return text


Size = Annotated[str, AfterValidator(_is_size)]
Text = Annotated[str, Field(min_length=1), AfterValidator(_is_one_line)]
Port = Annotated[int, Field(ge=1, le=65535)]
CacheType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class LlamaCpp(Record):
    """Which llama.cpp is built, and how."""

    backend: Literal["auto", "cuda", "cpu", "rpc"] = Field(
        "auto", description="what holds the layers: auto is cuda where there is an NVIDIA GPU and cpu otherwise"
    )
    llama_repo: Text = Field("https://github.com/ggml-org/llama.cpp", description="git URL of the source")
    llama_ref: Text = Field("b12464", description="tag, branch or commit; resolved once and kept in the lock")
    llama_cmake_args: tuple[Text, ...] = Field((), description="further cmake arguments, such as GGML_NATIVE=OFF")
    cuda_architectures: Text = Field("auto", description="CMAKE_CUDA_ARCHITECTURES; auto is that of each GPU present")
    cuda_toolkit: Text = Field("auto", description="folder of the CUDA toolkit; auto takes the newest one found")
    rpc_servers: tuple[Text, ...] = Field((), description="host:port of each ggml-rpc-server, for backend rpc")

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


class Model(Record):
    """Which GGUF is served, and where it comes from."""

    model_repo: Text | None = Field(None, description="repository on the Hub, as in owner/name")
    model_file: Text | None = Field(None, description="path of the GGUF in that repository")
    model_revision: Text = Field("main", description="branch, tag or commit; resolved once and kept in the lock")
    model_path: Text | None = Field(None, description="a GGUF that is on the host already, instead of model_repo")
    hub_endpoint: Text = Field(HUB, description="URL of the Hub or of a mirror")

    @model_validator(mode="after")
    def _one_source(self) -> Model:
        if (self.model_path is None) == (self.model_repo is None):
            raise ValueError("model_path, model_repo: set exactly one of the two")
        if (self.model_repo is None) != (self.model_file is None):
            raise ValueError("model_repo, model_file: one without the other names no model")
        if self.model_path is not None and not self.model_path.startswith(("/", "~/")):
            raise ValueError(f"model_path: {self.model_path!r} must begin with / or with ~/ (the host user's home)")
        return self


class Service(Record):
    """How llama-server runs. Names and values are llama.cpp's own."""

    context: int = Field(32768, ge=256, description="tokens of context, -c")
    n_cpu_moe: Annotated[int, Field(ge=0)] | Auto = Field(
        "auto", description="layers whose experts stay on the CPU; auto leaves the split to llama.cpp's -fit"
    )
    gpu_layers: Annotated[int, Field(ge=0)] | Auto = Field("auto", description="-ngl; auto is all of them")
    ubatch: int = Field(512, ge=1, description="tokens in a physical batch, -ub")
    cache_type_k: CacheType = Field("f16", description="type of the K cache")
    cache_type_v: CacheType = Field("f16", description="type of the V cache")
    cache_ram_mib: int = Field(2048, ge=0, description="prompt cache in RAM, MiB; 0 is off")
    context_shift: bool = Field(False, description="drop the oldest messages when the context is full")
    flash_attention: Literal["on", "off", "auto"] = Field("auto", description="-fa")
    jinja: bool = Field(True, description="use the model's chat template")
    threads: Annotated[int, Field(ge=1)] | Auto = Field("auto", description="-t; auto is one per physical core")
    fit: Literal["on", "off", "auto"] = Field(
        "auto", description="let llama.cpp fit the model to the device; auto is on while n_cpu_moe is auto"
    )
    temperature: float | None = Field(None, ge=0, description="default sampling temperature")
    top_p: float | None = Field(None, ge=0, le=1, description="default top-p")
    top_k: int | None = Field(None, ge=0, description="default top-k")
    min_p: float | None = Field(None, ge=0, le=1, description="default min-p")
    host: Literal["127.0.0.1", "localhost", "::1"] = Field("127.0.0.1", description="address, loopback only")
    port: Port = Field(8091, description="port of the HTTP server")
    service_memory_max: Size | Auto = Field("auto", description="MemoryMax of the unit; auto is 3/4 of the RAM")
    service_memory_swap_max: Size = Field("0", description="MemorySwapMax of the unit")
    memory_cap_required: bool | Literal["warn"] = Field(
        True, description="refuse a host on which the cap would not be enforced; 'warn' only says so"
    )

    @model_validator(mode="after")
    def _one_planner(self) -> Service:
        explicit = self.n_cpu_moe != "auto" or self.gpu_layers != "auto"
        if self.fit == "on" and explicit:
            raise ValueError(
                "fit: 'on' gives up with a mere warning when n_cpu_moe or gpu_layers is set"
                " (llama.cpp#27872); set fit to 'auto', or leave both of them 'auto'"
            )
        if self.service_memory_max != "auto":
            cap, cache = size_in_bytes(self.service_memory_max), self.cache_ram_mib << 20
            if cap <= cache:
                raise ValueError(
                    f"service_memory_max: {self.service_memory_max} cannot hold cache_ram_mib={self.cache_ram_mib}"
                )
        return self


class Browser(Record):
    """Which browsers get the policy that keeps their local AI model away."""

    browser_policy: Literal["auto", "off"] | tuple[Literal["chrome", "chromium"], ...] = Field(
        "auto", description="auto: the browsers installed; a list: these, installed or not; off: none"
    )


class Benchmark(Record):
    """What the smoke run measures."""

    benchmark_depths: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        (0, 2048), description="tokens already in the context when a figure is taken"
    )
    benchmark_tokens: int = Field(64, ge=2, description="tokens generated per figure")


class Settings(Record):
    """Everything that the inventory says about one host."""

    llama_cpp: LlamaCpp
    model: Model
    service: Service
    browser: Browser
    benchmark: Benchmark
    only: tuple[str, ...] = Field((), description="run these roles alone, as in --data only=service,benchmark")

    @model_validator(mode="after")
    def _depths_fit(self) -> Settings:
        deepest = max(self.benchmark.benchmark_depths, default=0) + self.benchmark.benchmark_tokens
        if deepest >= self.service.context:
            raise ValueError(f"benchmark_depths: {deepest} tokens do not fit in context={self.service.context}")
        unknown = set(self.only) - set(ROLES)
        if unknown:
            raise ValueError(f"only: no role is called {', '.join(sorted(unknown))}; the roles are {', '.join(ROLES)}")
        return self

    def runs(self, role: str) -> bool:
        return not self.only or role in self.only


RECORDS: dict[str, type[Record]] = {
    "llama_cpp": LlamaCpp,
    "model": Model,
    "service": Service,
    "browser": Browser,
    "benchmark": Benchmark,
}
OWNER = {key: role for role, record in RECORDS.items() for key in record.model_fields} | {"only": ""}


def of(data: Mapping[str, Any]) -> Settings:
    """The settings of one host from its pyinfra data. Raises ValidationError or ValueError."""
    problems = errors(data)
    if problems:
        raise ValueError("; ".join(problems))
    return Settings.model_validate(_sorted_by_role(data))


def errors(data: Mapping[str, Any]) -> list[str]:
    """One sentence for each thing that is wrong with the data of one host."""
    found = []
    for key in data:
        if key not in OWNER and not FOREIGN.match(key):
            near = difflib.get_close_matches(key, OWNER, n=1)
            found.append(f"{key}: no such key" + (f"; did you mean {near[0]}?" if near else ""))
    try:
        Settings.model_validate(_sorted_by_role(data))
    except ValidationError as error:
        found += _sentences(error)
    return found


def _sorted_by_role(data: Mapping[str, Any]) -> dict[str, Any]:
    by_role: dict[str, Any] = {role: {} for role in RECORDS}
    for key, value in data.items():
        if key == "only":
            by_role["only"] = tuple(value.split(",")) if isinstance(value, str) else _as_tuple(value)
        elif key in OWNER:
            by_role[OWNER[key]][key] = _as_tuple(value)
    return by_role


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _sentences(error: ValidationError) -> Iterable[str]:
    """pydantic's findings, a key's alternatives joined into one sentence."""
    by_key: dict[str, list[str]] = {}
    values: dict[str, Any] = {}
    for item in error.errors(include_url=False, include_context=False):
        message = item["msg"].removeprefix("Value error, ")
        key = next((str(part) for part in item["loc"] if part in OWNER), None)
        if key is None:  # a rule about several keys, which its sentence names
            by_key.setdefault(message, [])
            continue
        by_key.setdefault(key, []).append(message[0].lower() + message[1:])
        values[key] = item["input"]
    for key, messages in by_key.items():
        yield f"{key}={values[key]!r}: {', or '.join(dict.fromkeys(messages))}" if messages else key
