"""A ref of llama.cpp becomes a commit: asked of a real repository, once."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from roles.llama_cpp import pin
from roles.lock import CannotPin, Lock
from tests.unit import hosts, pinning

NOWHERE = "file:///nonexistent/llama.cpp"
PERSON = {f"GIT_{role}_{what}": "test@example.test" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}

lock = pinning.lock


class Repo:
    """A git repository with one commit more at each call."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "master")

    @property
    def url(self) -> str:
        return self.folder.as_uri()

    def git(self, *words: str) -> str:
        env = {**os.environ, **PERSON, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", "-C", str(self.folder), *words], env=env, capture_output=True, text=True, check=True, timeout=30
        )
        return done.stdout.strip()

    def commit(self) -> str:
        self.git("commit", "-q", "--allow-empty", "-m", "work")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "llama.cpp")


def resolve(lock: Lock, ref: str, repo: str = NOWHERE) -> str:
    data: dict[str, Any] = {"llama_ref": ref, "llama_repo": repo}
    return pin.commit(hosts.wishes(**data).settings.llama_cpp, lock)


def test_a_tag_is_its_commit(repo: Repo, lock: Lock) -> None:
    tagged = repo.commit()
    repo.git("tag", "b12464")
    repo.commit()
    assert resolve(lock, "b12464", repo.url) == tagged


def test_an_annotated_tag_is_the_commit_behind_it(repo: Repo, lock: Lock) -> None:
    tagged = repo.commit()
    repo.git("tag", "-a", "v1", "-m", "a tag with an object of its own")
    assert repo.git("rev-parse", "v1") != tagged
    assert resolve(lock, "v1", repo.url) == tagged


def test_a_branch_is_its_newest_commit(repo: Repo, lock: Lock) -> None:
    repo.commit()
    newest = repo.commit()
    assert resolve(lock, "master", repo.url) == newest


def test_a_tag_goes_before_a_branch_of_the_same_name(repo: Repo, lock: Lock) -> None:
    tagged = repo.commit()
    repo.git("tag", "master")
    repo.commit()
    assert resolve(lock, "master", repo.url) == tagged


def test_the_end_of_a_name_is_not_the_name(repo: Repo, lock: Lock) -> None:
    repo.commit()
    repo.git("branch", "feature/fast")
    with pytest.raises(CannotPin, match="llama_ref='fast' is neither a tag nor a branch"):
        resolve(lock, "fast", repo.url)


def test_a_full_commit_asks_nobody_and_needs_no_lock(lock: Lock) -> None:
    assert resolve(lock, hosts.COMMIT) == hosts.COMMIT
    assert not lock.changed


@pytest.mark.parametrize("ref", ["b99999", "b*", "0123456", hosts.COMMIT.upper()])
def test_what_is_neither_tag_nor_branch_is_told(repo: Repo, lock: Lock, ref: str) -> None:
    repo.commit()
    repo.git("tag", "b12464")
    with pytest.raises(CannotPin, match=r"is neither a tag nor a branch of .* a commit needs all 40 digits"):
        resolve(lock, ref, repo.url)
    assert not lock.changed


def test_a_repository_that_is_not_there_is_told_with_gits_reason(lock: Lock) -> None:
    with pytest.raises(CannotPin, match=r"llama_repo='file:///nonexistent/llama\.cpp' cannot be read") as caught:
        resolve(lock, "master")
    assert "does not appear to be a git repository" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_second_run_uses_the_lock_and_needs_no_repository(repo: Repo, lock: Lock) -> None:
    first = repo.commit()
    assert resolve(lock, "master", repo.url) == first
    lock.save()
    url = repo.url
    shutil.rmtree(repo.folder)
    assert resolve(Lock(lock.path), "master", url) == first


def test_the_lock_holds_the_ref_although_the_branch_moved_on(repo: Repo, lock: Lock) -> None:
    first = repo.commit()
    resolve(lock, "master", repo.url)
    second = repo.commit()
    assert resolve(lock, "master", repo.url) == first
    assert resolve(Lock(lock.path.with_name("another.lock.yml")), "master", repo.url) == second


def test_another_repository_is_another_entry(repo: Repo, lock: Lock, tmp_path: Path) -> None:
    fork = Repo(tmp_path / "fork")
    mine = repo.commit()
    fork.commit()
    theirs = fork.commit()
    assert [resolve(lock, "master", one.url) for one in (repo, fork)] == [mine, theirs]


def test_a_machine_without_git_is_told(lock: Lock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotPin, match="git is not installed on this machine"):
        resolve(lock, "master")


def test_a_repository_that_does_not_answer_is_given_up(
    lock: Lock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    silent = tmp_path / "git"
    silent.write_text("#!/bin/sh\nexec sleep 60\n")
    silent.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(pin, "SECONDS", 0.2)
    with pytest.raises(CannotPin, match=r"did not answer within 0\.2 s"):
        resolve(lock, "master")
