"""What `server_args` may hold: any option of llama-server but those that have a key, and none with a secret."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from roles.settings.values import Word

# Every spelling of an option, and what to do instead. What has a key would pass by the rules that its key is under.
_INSTEAD = {
    "the model role has keys for it": "-m --model -mu --model-url -hf -hfr --hf-repo -hff --hf-file",
    "Paddock needs its own value": "-np --parallel -lv --verbosity --log-verbosity",
    "a token never goes into a command line": "-hft --hf-token",
    "use api_key_file": "--api-key",
}
_KEYS = {
    "context": "-c --ctx-size",
    "n_cpu_moe": "-ncmoe --n-cpu-moe -cmoe --cpu-moe",
    "gpu_layers": "-ngl --gpu-layers --n-gpu-layers",
    "ubatch": "-ub --ubatch-size",
    "cache_type_k": "-ctk --cache-type-k",
    "cache_type_v": "-ctv --cache-type-v",
    "context_shift": "--context-shift --no-context-shift",
    "flash_attention": "-fa --flash-attn",
    "jinja": "--jinja --no-jinja",
    "threads": "-t --threads",
    "load_mode": "-lm --load-mode --mmap --no-mmap --mlock -dio --direct-io",
    "lazy_mode": "-lzm --lazy-mode",
    "moe_cache_mib": "--moe-cache-mib",
    "temperature": "--temp --temperature",
    "top_p": "--top-p",
    "top_k": "--top-k",
    "min_p": "--min-p",
    "host": "--host",
    "port": "--port",
    "api_key_file": "--api-key-file",
    "rpc_servers": "--rpc",
    "fit": "-fit --fit",
    "cache_ram_mib": "-cram --cache-ram",
    "sleep_idle_seconds": "--sleep-idle-seconds",
}
_INSTEAD |= {f"set the key {key}": options for key, options in _KEYS.items()}
OWNED = {option: instead for instead, options in _INSTEAD.items() for option in options.split()}


def check_server_args(words: tuple[str, ...]) -> tuple[str, ...]:
    for before, word in zip(("", *words), words, strict=False):
        if not word.startswith("-") and not before.startswith("-"):
            raise ValueError(f"{word!r} belongs to no option; a word each, as in ['--no-warmup', '--poll', '50']")
        option, equals, _ = word.partition("=")
        if option in OWNED:
            raise ValueError(f"{option} is not for server_args: {OWNED[option]}")
        if option.startswith("-") and equals:
            raise ValueError(f"{word!r} is one word, and llama-server takes an option and its value as two")
    return words


ServerArgs = Annotated[tuple[Word, ...], AfterValidator(check_server_args)]
