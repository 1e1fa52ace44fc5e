"""The lock file: read whole or refused with a sentence, written at once or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from roles.lock import Lock, LockError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "laptop.lock.yml"


def test_what_was_put_is_there_in_the_next_run(path: Path) -> None:
    lock = Lock(path)
    assert lock.get("llama_cpp", "repo b1", str) is None
    lock.put("llama_cpp", "repo b1", "f" * 40)
    lock.put("model", "owner/name main some.gguf", {"size": 5})
    lock.save()
    again = Lock(path)
    assert again.get("llama_cpp", "repo b1", str) == "f" * 40
    assert again.get("model", "owner/name main some.gguf", dict[str, int]) == {"size": 5}


def test_the_file_says_whose_it_is_and_how_to_update(path: Path) -> None:
    lock = Lock(path)
    lock.put("llama_cpp", "repo b1", "f" * 40)
    lock.save()
    assert path.read_text("utf-8").startswith("# Written by Paddock")
    assert yaml.safe_load(path.read_text("utf-8")) == {"llama_cpp": {"repo b1": "f" * 40}}


def test_an_entry_that_a_person_deleted_is_resolved_anew(path: Path) -> None:
    path.write_text("llama_cpp:\n  repo b1: aaaa\n")
    assert Lock(path).get("llama_cpp", "repo b2", str) is None


def test_nothing_is_written_where_nothing_was_resolved(path: Path) -> None:
    Lock(path).save()
    assert not path.exists()
    path.write_text("# mine\nllama_cpp: {}\n")
    Lock(path).save()
    assert path.read_text("utf-8") == "# mine\nllama_cpp: {}\n"


def test_a_save_is_for_one_change(path: Path) -> None:
    lock = Lock(path)
    lock.put("llama_cpp", "repo b1", "f" * 40)
    lock.save()
    path.unlink()
    lock.save()
    assert not path.exists()


def test_a_writer_that_dies_leaves_the_old_file_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("llama_cpp: {repo b1: aaaa}\n")
    lock = Lock(path)
    lock.put("llama_cpp", "repo b2", "bbbb")
    seen = []

    def dying(self: Path, target: Path) -> None:
        seen.append((self.parent, yaml.safe_load(self.read_text("utf-8")), target.read_text("utf-8")))
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", dying)
    with pytest.raises(KeyboardInterrupt):
        lock.save()
    draft = {"llama_cpp": {"repo b1": "aaaa", "repo b2": "bbbb"}}
    assert seen == [(path.parent, draft, "llama_cpp: {repo b1: aaaa}\n")], "the draft was whole, and on the same disk"
    assert Lock(path).get("llama_cpp", "repo b1", str) == "aaaa"


def test_saving_leaves_no_draft(path: Path) -> None:
    lock = Lock(path)
    lock.put("llama_cpp", "repo b1", "f" * 40)
    lock.save()
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"llama_cpp: {repo b1: ", "cannot be read"),
        (b"\tllama_cpp: 5", "cannot be read"),
        (b"llama_cpp: !!python/object/apply:os.system [true]", "cannot be read"),
        (b"\xff\xfe\x00 not text", "cannot be read"),
        (b"- a list", "is not a lock file"),
        (b"just words", "is not a lock file"),
        (b"llama_cpp: [repo b1]", "is not a lock file"),
        (b"llama_cpp: {}\nmodel: 5", "is not a lock file"),
    ],
)
def test_a_file_that_is_no_lock_is_refused_in_one_line(path: Path, content: bytes, sentence: str) -> None:
    path.write_bytes(content)
    with pytest.raises(LockError, match=sentence) as caught:
        Lock(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize("value", ["5", "[a]", "{size: 5}"])
def test_an_entry_that_somebody_broke_is_told_by_its_name(path: Path, value: str) -> None:
    path.write_text(f"llama_cpp: {{repo b1: {value}}}\n")
    with pytest.raises(LockError, match="the entry 'repo b1' under llama_cpp is not whole; delete it"):
        Lock(path).get("llama_cpp", "repo b1", str)


@pytest.mark.parametrize("content", ["", "# only a comment\n", "{}\n"])
def test_an_empty_file_is_an_empty_lock(path: Path, content: str) -> None:
    path.write_text(content)
    assert Lock(path).get("llama_cpp", "repo b1", str) is None


def test_a_folder_in_its_place_is_refused(path: Path) -> None:
    path.mkdir()
    with pytest.raises(LockError, match="cannot be read"):
        Lock(path)


def test_pins_that_are_resolved_anew_are_told_old_to_new(tmp_path: Path) -> None:
    path = tmp_path / "inventory.lock.yml"
    known = Lock(path)
    known.put("llama_cpp", "repo master", "a" * 40)
    known.put("llama_cpp", "repo b100", "c" * 40)
    known.put("model", "owner/name main some.gguf", {"commit": "1" * 40, "size": 5, "sha256": "e" * 64})
    known.save()
    anew = Lock(path, empty=True)
    assert anew.get("llama_cpp", "repo master", str) is None
    anew.put("llama_cpp", "repo master", "b" * 40)
    anew.put("model", "owner/name main some.gguf", {"commit": "2" * 40, "size": 5, "sha256": "f" * 64})
    anew.put("web_ui", "b100", {"sha256": None})
    assert known.update(anew) == [
        "llama_cpp repo master: aaaaaaaaaaaa -> bbbbbbbbbbbb",
        "model owner/name main some.gguf: commit 111111111111 size 5 sha256 eeeeeeeeeeee"
        " -> commit 222222222222 size 5 sha256 ffffffffffff",
        "web_ui b100: none -> sha256 none",
    ]
    known.save()
    assert Lock(path).get("llama_cpp", "repo master", str) == "b" * 40
    assert Lock(path).get("llama_cpp", "repo b100", str) == "c" * 40, "what this run did not ask for stays"
    assert Lock(path).update(anew) == [], "nothing is told twice"


def test_entries_that_nobody_asks_for_are_dropped_only_where_all_were_asked(path: Path) -> None:
    known, anew = Lock(path), Lock(path, empty=True)
    for name in ("one main a.gguf", "two main b.gguf"):
        known.put("model", name, {"commit": "1" * 40})
    known.put("web_ui", "b100", {"sha256": None})
    known.save()
    anew.put("model", "one main a.gguf", {"commit": "1" * 40})
    assert known.update(anew) == []
    assert sorted(known.update(anew, whole=True)) == [
        "model two main b.gguf: commit 111111111111 -> none",
        "web_ui b100: sha256 none -> none",
    ]
    known.save()
    assert Lock(path).names("model") == ["one main a.gguf"]
    assert Lock(path).update(anew, whole=True) == []
