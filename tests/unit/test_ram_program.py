"""What is asked of llama-fit-params beyond what it prints. The answers are those of the lab's release on the files that
are named, with `-fa on -np 1`."""

from __future__ import annotations

from typing import Any

import pytest

from roles.memory import ram_program

SPLIT = {"gpu_layers": 0, "n_cpu_moe": None, "n_cpu_ffn": None}
# gemma-3-270m-q4_k_m.gguf on the CPU; one of its checkpoints was logged with 7.506 MiB.
GEMMA = {("4096", "512"): 27, ("8192", "512"): 39, ("8192", "256"): 35}
QWEN3MOE = {("4096", "512"): 3, ("8192", "512"): 6}


class Told:
    """Stands in for llama-fit-params, which is built from C++ for a quarter of an hour: tests/lab asks a real one."""

    def __init__(self, context: dict[tuple[str, str], int], model: tuple[int, int] = (0, 0)) -> None:
        self.context, self.model, self.asked = context, model, 0
        self.knows = {"--no-repack"}

    def ask(self, split: dict[str, Any], changes: dict[str, str], flags: tuple[str, ...] = ()) -> dict[str, Any]:
        self.asked += 1
        key = (changes.get("-c", "4096"), changes.get("-ub", "512"))
        return {"host": [self.model[bool(flags)], self.context.get(key, 0), 0], "devices": {}}


@pytest.mark.parametrize(("context", "state"), [(GEMMA, 8), (QWEN3MOE, 0)])
def test_a_checkpoint_holds_what_does_not_grow_with_the_context_nor_with_the_batch(
    context: dict[tuple[str, str], int], state: int
) -> None:
    assert ram_program.state(Told(context), SPLIT, 4096, 512) == state  # type: ignore[arg-type]


def test_a_recurrent_state_is_the_same_for_any_batch() -> None:
    hybrid = {("4096", "512"): 100, ("8192", "512"): 140, ("8192", "256"): 140}
    assert ram_program.state(Told(hybrid), SPLIT, 4096, 512) == 61  # type: ignore[arg-type]


def test_a_context_is_asked_about_as_llama_cpp_rounds_it() -> None:
    padded = {("4096", "512"): 4, ("7680", "512"): 8}
    assert ram_program.state(Told(padded), SPLIT, 3700, 512) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("backend", "words", "mib", "asked"),
    [
        ("cpu", [], 13, 2),
        ("rpc", [], 13, 2),
        ("cuda", [], 0, 0),
        ("cuda", ["--no-host"], 13, 2),
        ("cpu", ["--no-repack"], 0, 0),
        ("cpu", ["-nr"], 0, 0),
    ],
)
def test_what_is_repacked_is_what_the_host_lacks_without_a_word(
    backend: str, words: list[str], mib: int, asked: int
) -> None:
    oracle = Told(GEMMA, model=(222, 235))
    assert ram_program.repacked(oracle, SPLIT, {"backend": backend, "extra": words}) == mib  # type: ignore[arg-type]
    assert oracle.asked == asked
