"""The cached Debian root that every lab host is a copy of."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tests.lab import recipe
from tests.lab.common import MORTAL, Lab, LabError, locked, run


def base_root(lab: Lab, suite: str = recipe.SUITE) -> Path:
    """The root of the present recipe; made with debootstrap (about a minute, 400 MB) when it is not cached yet.

    It appears under its final name by one rename, so an interrupted build leaves nothing that looks finished.
    """
    final = named(lab, suite)
    if not final.exists():
        with locked(lab.cache / "base.lock"):
            build(lab, final, suite)
    return final


def named(lab: Lab, suite: str) -> Path:
    return lab.cache / f"base-{recipe.digest(suite)}"


def build(lab: Lab, final: Path, suite: str) -> None:
    """Make the root, unless another process made it while this one waited for the lock."""
    if final.exists():
        return
    for stale in lab.cache.glob("building-*"):
        discard(stale)
    building = Path(tempfile.mkdtemp(prefix="building-", dir=lab.cache))
    root = building / "root"
    try:
        debootstrap(root, suite)
        bake(root, suite)
        root.rename(final)
        present = [final, *(named(lab, each) for each in (recipe.SUITE, recipe.NEWER))]
        for old in lab.cache.glob("base-*/"):
            if old not in present:
                shutil.rmtree(old)
    finally:
        discard(building)


def discard(building: Path) -> None:
    """Remove an unfinished build, after what an interrupted debootstrap left mounted in it."""
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        point = line.split()[1]
        if point.startswith(f"{building}/"):
            run(["umount", "--lazy", point])
    shutil.rmtree(building, ignore_errors=True)


def debootstrap(root: Path, suite: str) -> None:
    """Unpack and configure the packages of the recipe in `root`; the mirror must be reachable."""
    words = ["--variant=minbase", f"--include={recipe.PACKAGES}", suite, str(root), recipe.MIRROR]
    done = run([*MORTAL, "debootstrap", *words], timeout=1200, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if line.startswith(("E:", "W:"))]
        said = lines[-1] if lines else (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise LabError(f"debootstrap could not make a Debian root from {recipe.MIRROR}: {said}")


def bake(root: Path, suite: str) -> None:
    """Users, files and masked units of the recipe."""
    for name, (mode, text) in recipe.files(suite).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
    for unit in recipe.MASKED:
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
    run(
        ["chroot", str(root), "/bin/sh", "-s"],
        stdin=recipe.SETUP,
        timeout=120,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    (root / "etc/machine-id").write_text("")
    (root / "etc/hostname").unlink(missing_ok=True)
