"""What `server_args` may hold: any option of llama-server but those that have a key, and none with a secret."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from roles.settings.values import Word

# Every spelling of an option, and what to do instead. What has a key would pass by the rules that its key is under.
_INSTEAD = {
    "it has a key of its own": """
        -c --ctx-size -ncmoe --n-cpu-moe -cmoe --cpu-moe -ngl --gpu-layers --n-gpu-layers -ub --ubatch-size
        -ctk --cache-type-k -ctv --cache-type-v --context-shift --no-context-shift -fa --flash-attn --jinja --no-jinja
        -t --threads -lm --load-mode --mmap --no-mmap --mlock -dio --direct-io -lzm --lazy-mode --moe-cache-mib
        --temp --temperature --top-p --top-k --min-p --host --port --api-key-file --rpc
        -fit --fit -cram --cache-ram --sleep-idle-seconds""",
    "the model role has keys for it": "-m --model -mu --model-url -hf -hfr --hf-repo -hff --hf-file",
    "Paddock needs its own value": "-np --parallel -lv --verbosity --log-verbosity",
    "a token never goes into a command line": "-hft --hf-token",
    "use api_key_file": "--api-key",
}
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
