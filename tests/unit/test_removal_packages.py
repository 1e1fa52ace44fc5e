"""Which packages a removal takes back by root's script: those that came by Paddock and that nothing else needs."""

from __future__ import annotations

from pathlib import Path

from roles.packages.decide import RECORD
from roles.remote import Script
from roles.removal import decide
from tests.unit import local

# dpkg's part is played: it refuses a list with one that others need, and that one alone.
DPKG = """
shift
case " $* " in *" git "*) echo "dependency problems prevent removal of git" >&2; exit 1 ;; esac
for name; do sed -i "/ $name\\$/d" "$INSTALLED"; done
"""


def test_packages_that_something_else_needs_by_now_stay_and_the_others_go(tmp_path: Path) -> None:
    installed, record = tmp_path / "installed", tmp_path / "record"
    record.mkdir()
    installed.write_text("".join(f"installed {name}\n" for name in ("cmake", "git", "perl", "theirs")))
    (record / "packages.before").write_text("theirs\n")
    path = local.tool(tmp_path / "bin", "dpkg-query", f"cat {installed}\n")
    local.tool(tmp_path / "bin", "dpkg", DPKG)
    script = Script(RECORD + decide.ROOT, (str(record), "", "apt"))
    done = local.run(script, PATH=path, INSTALLED=str(installed))
    assert done.returncode == 0, done.stderr
    assert installed.read_text() == "installed git\ninstalled theirs\n"
    assert list(record.iterdir()) == []


def test_a_package_manager_at_work_is_an_error_and_the_record_stays(tmp_path: Path) -> None:
    (tmp_path / "packages").write_text("git\n")
    path = local.tool(tmp_path / "bin", "dpkg-query", "echo installed git\n")
    local.tool(tmp_path / "bin", "dpkg", 'echo "dpkg: error: dpkg frontend lock was locked by pid 7" >&2; exit 2\n')
    done = local.run(Script(RECORD + decide.ROOT, (str(tmp_path), "", "apt")), PATH=path)
    assert "paddock: another package manager is at work; run again" in done.stderr
    assert (tmp_path / "packages").exists()
