"""llama.cpp's real source as a small git repository, made the same everywhere, so its commit ids are the same too.

The source comes from a distribution on the package index that carries the whole tree. `b1000` is as it is there,
`b1001` has one changed log line (one object to compile); each branch of `BROKEN` has one thing wrong with it.
"""

from __future__ import annotations

import hashlib
import tarfile
import tempfile
from pathlib import Path

from tests.lab import sdist
from tests.lab.common import Lab, LabError, locked, run

SOURCE = "vendor/llama.cpp"
RECIPE = "1"  # change it with anything below that changes a commit
CHANGED = ("tools/server/server.cpp", '"initializing ...', '"initializing, as of b1001 ...')
DECODE = "int llama_context::decode(const llama_batch_ext & batch_inp) {"
# What a bad commit may do, each by a change to one file: name of the branch, file, what to replace, by what.
BROKEN = {
    "broken": ("src/llama.cpp", "#include", '#error "this commit does not compile"\n#include'),
    "crashing": ("tools/server/server.cpp", "llama_backend_init();", "llama_backend_init(); abort();"),
    "blind": ("ggml/src/ggml-rpc/ggml-rpc.cpp", "return ctx ? ctx->devices.size() : 0;", "GGML_UNUSED(ctx); return 0;"),
    "lacking": ("common/arg.cpp", '{"-cram", "--cache-ram"}', '{"-gone", "--cache-gone"}'),
    "slow": ("src/llama-context.cpp", DECODE, f"#include <unistd.h>\n{DECODE}\n    usleep(200 * 1000);"),
}
IDENTITY = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Paddock lab",
    "GIT_AUTHOR_EMAIL": "lab@paddock.test",
    "GIT_COMMITTER_NAME": "Paddock lab",
    "GIT_COMMITTER_EMAIL": "lab@paddock.test",
}


def repository(lab: Lab) -> Path:
    """The bare repository, made on first use (a download of 76 MB, then some 10 seconds)."""
    digest = hashlib.sha256(f"{RECIPE} {sdist.SDIST_SHA256} {CHANGED} {BROKEN}".encode()).hexdigest()[:12]
    final = lab.cache / f"upstream-{digest}"
    if not final.exists():
        with locked(lab.cache / "upstream.lock"):
            if not final.exists():
                build(lab, final)
    return final / "llama.cpp.git"


def commit_id(lab: Lab, name: str) -> str:
    """The full id behind `b1000`, `b1001`, `master` or a branch of `BROKEN`."""
    return git(repository(lab), "rev-parse", f"{name}^{{commit}}").strip()


def git(repo: Path, *words: str, date: int = 0) -> str:
    """Run git on a repository with nobody's configuration; `date` in seconds since 2026-01-01."""
    stamp = f"{1767225600 + date} +0000"
    env = {**IDENTITY, "GIT_AUTHOR_DATE": stamp, "GIT_COMMITTER_DATE": stamp}
    settings = ["-c", "core.autocrlf=false", "-c", "core.attributesFile=/dev/null", "-c", "safe.directory=*"]
    return run(["git", *settings, "-C", str(repo), *words], env=env, timeout=300).stdout


def build(lab: Lab, final: Path) -> None:
    """Unpack, commit three times, keep only the repository; it appears under its final name by one rename."""
    try:
        archive = sdist.sdist()
    except (RuntimeError, OSError) as error:
        raise LabError(f"llama.cpp's source could not be fetched: {str(error).splitlines()[-1]}") from None
    with tempfile.TemporaryDirectory(prefix="upstream-building-", dir=lab.cache) as folder:
        tree = unpack(archive, Path(folder))
        git(tree, "init", "-q", "-b", "master", "--object-format=sha1")
        commit(tree, "b1000", "llama.cpp as the package index has it", 0)
        name, old, new = CHANGED
        edit(tree / name, old, new)
        commit(tree, "b1001", "Change the text of a log line", 3600)
        for branch, (name, old, new) in BROKEN.items():
            git(tree, "checkout", "-q", "-f", "-b", branch, "b1001")
            edit(tree / name, old, new)
            commit(tree, "", f"Break it: {branch}", 7200)
        bare = Path(folder) / "done" / "llama.cpp.git"
        git(tree, "clone", "-q", "--bare", "--no-hardlinks", str(tree), str(bare))
        git(bare, "symbolic-ref", "HEAD", "refs/heads/master")
        git(bare, "config", "uploadpack.allowAnySHA1InWant", "true")
        git(bare, "remote", "remove", "origin")
        bare.parent.rename(final)


def unpack(archive: Path, folder: Path) -> Path:
    """Extract llama.cpp's tree, and nothing beside it."""
    with tarfile.open(archive) as tar:
        members = [member for member in tar.getmembers() if f"/{SOURCE}/" in member.name]
        tar.extractall(folder, members=members, filter="data")
    [top] = (path for path in folder.iterdir() if path.is_dir())
    (top / SOURCE / ".git").unlink(missing_ok=True)  # a submodule's pointer to a repository that is not here
    return top / SOURCE


def edit(path: Path, old: str, new: str) -> None:
    """Replace the first `old` in a file; fails when there is none."""
    text = path.read_text()
    if old not in text:
        raise LabError(f"{path.name} has no {old!r} to change: the lab's recipe does not fit this source.")
    path.write_text(text.replace(old, new, 1))


def commit(tree: Path, tag: str, message: str, date: int) -> None:
    """Commit everything, also what llama.cpp's .gitignore leaves out, and tag it."""
    git(tree, "add", "--all", "--force", ".")
    git(tree, "commit", "-q", "-m", message, date=date)
    if tag:
        git(tree, "tag", tag)
