"""All records in one, the rules between keys of several, and who owns which key."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, model_validator

from roles.settings.base import Record, key
from roles.settings.benchmark import Benchmark
from roles.settings.browser import Browser
from roles.settings.llama_cpp import LlamaCpp
from roles.settings.memory import Memory
from roles.settings.model import Model
from roles.settings.service import Service, cuda_refuses

ROLES = ("packages", "browser", "llama_cpp", "model", "memory", "service", "benchmark")


def check_role(name: str) -> str:
    if name not in ROLES:
        raise ValueError(f"no role is called {name}; the roles are {', '.join(ROLES)}")
    return name


RoleName = Annotated[str, AfterValidator(check_role)]


class Settings(Record):
    """Everything that the inventory says about one host."""

    llama_cpp: LlamaCpp
    model: Model
    memory: Memory
    service: Service
    browser: Browser
    benchmark: Benchmark
    only: tuple[RoleName, ...] = key((), "run these roles alone, as in --data only=service,benchmark", ["browser"])

    @model_validator(mode="after")
    def _depths_fit(self) -> Settings:
        depths = self.benchmark.benchmark_depths
        deepest = max([0, *(() if depths == "auto" else depths)]) + self.benchmark.benchmark_tokens
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


RECORDS: dict[str, type[Record]] = {
    "llama_cpp": LlamaCpp,
    "model": Model,
    "memory": Memory,
    "service": Service,
    "browser": Browser,
    "benchmark": Benchmark,
}
OWNER = {name: role for role, record in RECORDS.items() for name in record.model_fields} | {"only": ""}
