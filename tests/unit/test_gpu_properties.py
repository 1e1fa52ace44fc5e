"""Whatever a host says about its GPUs, there is a state for it: no text breaks a parser.

PADDOCK_SOAK=1 tries 10,000 examples each in place of a few hundred.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from roles import observation
from roles.gpu.classify import Gpu, Holder, Nvidia, State, classify
from roles.gpu.observe import FIELDS, GPU, GpuSeen
from roles.gpu.parse import holders, loaded_version, rows, table_version
from tests.unit.test_gpu import TRANSCRIPTS

SOAK = bool(os.environ.get("PADDOCK_SOAK"))
trying = settings(
    max_examples=10_000 if SOAK else 200,
    database=None,
    derandomize=bool(os.environ.get("CI")) and not SOAK,
)

# Bytes of a tool arrive as probe_tools.run decodes them; pieces of real answers lead deeper than noise does.
NOISE = st.one_of(st.text(max_size=80), st.binary(max_size=80).map(lambda bytes_: bytes_.decode("utf-8", "replace")))
WORDS = st.sampled_from(
    [
        "GPU-", "GPU-12345678", "[N/A]", "[Not Supported]", "[GPU is lost]", "Enabled", "8.6", "570.124.06", "6144",
        "٣", "²", "-1", "1e9", "9" * 5000, "0.0.0.0.0", ", ", ",", "\n", "\r", "\x1c", " ", "\u2028", "Kernel Module  ",
        "<gpu id=", '<gpu id="0">', "</gpu>", "<uuid>", "</uuid>", "<process_info>", "</process_info>", "<pid>",
        "</pid>", "<used_memory>", " MiB</used_memory>", "<process_name>", "</process_name>", "--type=", "&#x0;",
        "&#99999999999;", "&amp", "\udcff",
    ]
)  # fmt: skip
PIECES = st.lists(st.one_of(NOISE, WORDS), max_size=12).map("".join)
ANSWERS = [one["seen"].get(tool) or {} for one in TRANSCRIPTS.values() for tool in ("table", "xml")]
WHOLE = st.sampled_from([str(answer["out"]) for answer in ANSWERS if "out" in answer])
VALUE = st.one_of(WORDS, NOISE).map(lambda text: text.replace(",", "").replace("<", ""))
ROWS = st.lists(VALUE, min_size=len(FIELDS) - 1, max_size=len(FIELDS) - 1).map(
    lambda values: ", ".join([values[0], "GPU-1", *values[1:]])
)
PROCESSES = st.tuples(VALUE, VALUE, VALUE, VALUE, VALUE).map(
    lambda values: (
        "<gpu id=><uuid>{}</uuid><process_info><pid>{}</pid><type>{}</type>"
        "<process_name>{}</process_name><used_memory>{} MiB</used_memory></process_info>".format(*values)
    )
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A real answer with a piece taken out and something else put in."""
    text = draw(WHOLE)
    begin = draw(st.integers(0, len(text)))
    return text[:begin] + draw(PIECES) + text[begin + draw(st.integers(0, 200)) :]


TEXTS = st.one_of(PIECES, damaged(), ROWS, PROCESSES)
TOOLS = st.none() | st.fixed_dictionaries(
    {"rc": st.sampled_from([None, 0, 14, 9, 18, 255, -11]), "out": TEXTS, "err": NOISE}
)
MAYBE = st.none() | NOISE | WORDS
SEEN = st.fixed_dictionaries(
    {
        "cards": st.lists(st.fixed_dictionaries({"address": NOISE, "power": NOISE}), max_size=2),
        "wsl": st.booleans(),
        "nouveau": st.booleans(),
        "loaded": MAYBE,
        "proc_version": MAYBE,
        "libraries": st.dictionaries(st.sampled_from(["libcuda.so.1", "libnvidia-ml.so.1", ""]), MAYBE),
        "kernel": st.none() | st.sampled_from(["6.1", "6.12"]),
        "kernel_newest": st.none() | st.sampled_from(["6.1", "6.12"]),
        "modules": st.dictionaries(st.sampled_from(["6.1", "6.12"]), MAYBE),
        "nodes": st.lists(NOISE, max_size=3),
        "table": TOOLS,
        "xml": TOOLS,
    }
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | NOISE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NOISE, inner, max_size=4),
    max_leaves=12,
)


def is_sound(nvidia: Nvidia) -> None:
    """The types that the rest of Paddock counts on, and not only by name."""
    assert nvidia.state in get_args(State)
    assert bool(nvidia.why) == (nvidia.state not in ("healthy", "none"))
    assert bool(nvidia.gpus) == (nvidia.state in ("healthy", "mig"))
    if nvidia.driver is not None:
        assert all(int(part) >= 0 for part in nvidia.driver.split("."))
    for gpu in nvidia.gpus:
        is_sound_gpu(gpu)


def is_sound_gpu(gpu: Gpu) -> None:
    assert gpu.uuid.startswith("GPU-")
    assert gpu.compute_cap is None or float(gpu.compute_cap) >= 0
    for number in (gpu.index, gpu.memory_total, gpu.memory_used, *gpu.pcie_gen, *gpu.pcie_width):
        assert number is None or 0 <= number < 10**9


def is_sound_holder(holder: Holder) -> None:
    assert 0 <= holder.pid < 10**9
    assert holder.used is None or 0 <= holder.used < 10**9
    assert " -" not in holder.name
    assert holder.purpose == "".join(holder.purpose.split())


@trying
@given(SEEN, st.none() | st.booleans())
def test_every_answer_has_a_state(answer: dict[str, Any], secure_boot: bool | None) -> None:
    is_sound(classify(GpuSeen.model_validate(answer), secure_boot))


@trying
@given(TEXTS)
def test_any_text_is_a_table_of_some_cards(text: str) -> None:
    for gpu in rows(text):
        is_sound_gpu(gpu)
    table_version(text)


@trying
@given(TEXTS)
def test_any_text_is_a_list_of_some_holders(text: str) -> None:
    for holder in holders(text):
        is_sound_holder(holder)


@trying
@given(MAYBE, MAYBE)
def test_any_text_is_a_version_or_none(loaded: str | None, proc_version: str | None) -> None:
    found = loaded_version(GpuSeen(loaded=loaded, proc_version=proc_version))
    assert found is None or found.replace(".", "").isdigit()


@trying
@given(st.one_of(JSON, st.dictionaries(st.sampled_from(sorted(GpuSeen.model_fields)), JSON, max_size=6)))
def test_any_json_is_a_record_or_is_refused_as_one(answer: Any) -> None:
    with suppress(ValidationError):
        is_sound(classify(GpuSeen.model_validate(answer)))
    with suppress(ValueError):
        is_sound(classify(observation.parse(json.dumps({"gpu": answer}), (GPU,))[GPU]))


@pytest.mark.parametrize(
    "text",
    [
        "<gpu id=" * 100_000,
        "<gpu id=<process_info>" + "<process_info>" * 70_000,
        "<gpu id=" + "<process_info><pid>" * 50_000,
        "<gpu id=<process_info><pid>" + " " * 1_000_000,
        "," * 1_000_000,
        "0, GPU-1" + ", " * 500_000,
        "Module " + "1." * 500_000,
        "Module" * 150_000,
    ],
)
def test_a_megabyte_of_nonsense_takes_no_time(text: str) -> None:
    begin = time.process_time()
    table = {"rc": 0, "out": text}
    is_sound(classify(GpuSeen.model_validate({"loaded": text, "proc_version": text, "table": table})))
    holders(text)
    assert time.process_time() - begin < 2
