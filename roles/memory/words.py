"""The options that decide how much memory the model takes: the server and llama-fit-params get the very same ones."""

from __future__ import annotations

from roles.memory.plan import Split
from roles.settings import Service

TO_COME = "known-after-the-plan"
# Memory that llama-fit-params does not count: projector, draft model, MTP head (llama.cpp#18097, #23472, #28172), and
# adapters, which are loaded when the model is there (common_init_result in llama.cpp's common/common.cpp).
UNCOUNTED = {
    *("-mm", "--mmproj", "-mmu", "--mmproj-url", "-md", "--model-draft", "--spec-draft-model", "-hfd", "-hfrd"),
    *("--hf-repo-draft", "--spec-draft-hf", "--mtp", "--spec-type", "--spec-default", "-mv", "--model-vocoder"),
    *("--lora", "--lora-scaled", "--fim-qwen-7b-spec", "--fim-qwen-14b-spec"),
}
# Whoever writes one of these spreads the layers over the devices by own rules.
OWN_SPREAD = {"-ts", "--tensor-split", "-sm", "--split-mode", "-mg", "--main-gpu", "-dev", "--device"}


def words(wanted: Service, rpc_servers: tuple[str, ...]) -> list[str]:
    """All but the model, its split and the inventory's own `server_args`."""
    args: list[object] = ["-c", wanted.context, "-ub", wanted.ubatch, "-np", 1]
    args += ["-ctk", wanted.cache_type_k, "-ctv", wanted.cache_type_v, "-fa", wanted.flash_attention]
    args += ["--rpc", ",".join(rpc_servers)] if rpc_servers else []
    return [str(word) for word in args]


def split_words(split: Split) -> list[str]:
    """The split as llama-server is told it."""
    told: dict[str, object] = {
        "-ngl": split.gpu_layers,
        "--n-cpu-moe": split.n_cpu_moe,
        "--n-cpu-ffn": split.n_cpu_ffn,
        "-ts": ",".join(map(str, split.tensor_split)) or None,
    }
    names = dict(zip(("gpu_layers", "n_cpu_moe", "n_cpu_ffn", "tensor_split"), told, strict=True))
    told |= {names[name]: TO_COME for name in split.to_come}
    return [str(word) for option, value in told.items() if value is not None for word in (option, value)]


def own_spread(wanted: Service) -> bool:
    """Whether the inventory itself spreads the layers over the devices."""
    return bool(OWN_SPREAD & set(wanted.server_args))


def uncounted(wanted: Service) -> list[str]:
    """The options among `server_args` whose memory no plan knows."""
    return [word for word in wanted.server_args if word in UNCOUNTED]
