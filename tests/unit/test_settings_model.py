"""The rules between the keys of the model: one source, a name that can be one, and no secret in an error."""

from __future__ import annotations

from typing import Any

import pytest

from roles import settings

SHA = {"model_sha256": "d" * 64}
URL: dict[str, Any] = {"model_url": "https://host.test/a.gguf", **SHA}
REPO: dict[str, Any] = {"model_repo": "owner/name", "model_file": "a.gguf"}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({}, "model_path, model_repo, model_url: set exactly one of the three"),
        ({**REPO, **URL}, "model_path, model_repo, model_url: set exactly one of the three"),
        ({"model_url": "https://host.test/a.gguf"}, "model_url, model_sha256: one without the other is no pin"),
        ({"model_path": "~/a.gguf", **SHA}, "model_url, model_sha256: one without the other is no pin"),
        ({**URL, "model_sha256": "D" * 64}, "model_sha256: 'DDDD"),
        ({**REPO, "model_file": "../a.gguf"}, "model_file: '../a.gguf' is neither the path of a .gguf"),
        ({**REPO, "model_file": "/a.gguf"}, "model_file: '/a.gguf' is neither the path of a .gguf"),
        (
            {**REPO, "model_file": "Q4 K"},
            "model_file: 'Q4 K' is neither the path of a .gguf in a repository nor a quant",
        ),
        ({**REPO, "model_file": "some/folder"}, "model_file: 'some/folder' is neither the path of a .gguf"),
        ({**REPO, "hub_endpoint": "hub.test"}, "hub_endpoint: 'hub.test' is not the URL of a Hub"),
        (
            {**REPO, "hub_token_for": "https://me@hub.test"},
            "hub_token_for: 'https://me@hub.test' is not the URL of a Hub",
        ),
        ({**REPO, "model_keep": 0}, "model_keep=0: must be greater than or equal to 1"),
        ({**REPO, "download_rate_max": "5 MB"}, "download_rate_max='5 MB': '5 MB' is not a size"),
    ],
)
def test_what_names_no_model_is_refused(data: dict[str, Any], sentence: str) -> None:
    found = settings.errors(data)
    assert len(found) == 1, found
    assert found[0].startswith(sentence)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host.test/a.gguf?secret",
        "https://me:secret@host.test/a.gguf",
        "https://host.test/secret",
        "https://[secret/a.gguf",
        "https://host.test/a%2Fsecret.gguf",
        "https://host.test/secret-00001-of-00002.gguf",
        "https://host.test/secret%00.gguf",
        "https://secret..test/a.gguf",
    ],
)
def test_a_url_that_will_not_do_is_refused_without_being_shown(url: str) -> None:
    [told] = settings.errors({**URL, "model_url": url})
    assert told.startswith("model_url: ")
    assert "secret" not in told.replace("may hold a secret", "")


@pytest.mark.parametrize(
    "data",
    [
        {**URL, "model_url": "http://10.0.0.1:8080/some/my-model_Q4.K+M.gguf?key=value"},
        {**REPO, "model_file": "Q4_K_M"},
        {**REPO, "model_file": "UD-IQ2_M"},
        {**REPO, "model_file": "Q8_0/a b-00001-of-00002.gguf"},
        {**REPO, "hub_endpoint": "http://127.0.0.1:8010", "hub_token_for": "http://127.0.0.1:8010"},
        {**REPO, "hub_endpoint": "https://mirror.test/hub/"},
    ],
)
def test_what_names_one_is_accepted(data: dict[str, Any]) -> None:
    assert settings.errors(data) == []
