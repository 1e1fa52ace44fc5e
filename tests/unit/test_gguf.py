"""What is read of a model's header, against files that the gguf package writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import pytest

from roles.model.observe import ModelSeen, look_at_model
from roles.probe_tools import gguf_metadata
from roles.service.reasons import unfit_model
from tests.unit import hosts

TRAINED = 262144


def write(path: Path, *, mla: bool = False, vocabulary: bool = True) -> Path:
    """The header of a mixture of experts: scalars, arrays, and the tokenizer's keys last."""
    writer = gguf.GGUFWriter(path, "qwen3moe")
    writer.add_name("modèle 模型")
    writer.add_array("general.tags", ["one", "two"])
    writer.add_array("qwen3moe.numbers", [1, 2, 3])
    writer.add_context_length(TRAINED)
    writer.add_float32("qwen3moe.scale", 0.5)
    writer.add_bool("qwen3moe.flag", True)
    if mla:
        writer.add_kv_lora_rank(512)
    if vocabulary:
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list([f"token {number}" for number in range(1000)])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def seen(path: Path) -> ModelSeen:
    return ModelSeen.model_validate(look_at_model({"path": str(path), "rest": [], "models": str(path.parent)}))


@pytest.mark.parametrize("vocabulary", [True, False])
def test_scalars_are_read_up_to_the_vocabulary(tmp_path: Path, vocabulary: bool) -> None:
    assert gguf_metadata(str(write(tmp_path / "a.gguf", vocabulary=vocabulary))) == {
        "general.architecture": "qwen3moe",
        "general.name": "modèle 模型",
        "qwen3moe.context_length": TRAINED,
        "qwen3moe.scale": 0.5,
        "qwen3moe.flag": True,
    }


def test_a_model_tells_how_it_was_trained(tmp_path: Path) -> None:
    model = seen(write(tmp_path / "a.gguf"))
    assert (model.is_gguf, model.architecture, model.trained_context, model.mla) == (True, "qwen3moe", TRAINED, False)
    assert seen(write(tmp_path / "b.gguf", mla=True)).mla


def test_of_a_file_that_was_cut_off_what_stands_there_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf")
    whole = gguf_metadata(str(path))
    data = path.read_bytes()
    for size in range(0, 600, 7):
        path.write_bytes(data[:size])
        found = gguf_metadata(str(path))
        assert (found or {}).items() <= (whole or {}).items()


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model, but long enough to be one", b"GGUF" + b"\xff" * 100])
def test_what_is_no_gguf_is_told_by_its_lack_of_metadata(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.gguf").write_bytes(content)
    assert gguf_metadata(str(tmp_path / "a.gguf")) is None
    assert not seen(tmp_path / "a.gguf").is_gguf


@pytest.mark.parametrize(
    ("data", "fields", "sentence"),
    [
        ({"context": 65536}, {"trained_context": 32768}, "context=65536 is more than the 32768 tokens that Flint"),
        ({"context": 32768}, {"trained_context": 32768}, None),
        ({"context": 65536}, {"trained_context": None}, None),
        ({"cache_type_k": "q8_0"}, {"mla": True}, "has compressed attention (MLA), and llama.cpp wants equal types"),
        ({"cache_type_k": "q8_0", "cache_type_v": "q8_0"}, {"mla": True}, None),
        ({"cache_type_k": "q8_0"}, {"mla": False}, None),
    ],
)
def test_settings_that_a_model_cannot_have_are_told(
    data: dict[str, Any], fields: dict[str, Any], sentence: str | None
) -> None:
    model = ModelSeen.model_validate({**hosts.bare_answers()["model"], **fields})
    told = unfit_model(hosts.wishes(**data).settings.service, model)
    assert told is None if sentence is None else sentence in str(told)
