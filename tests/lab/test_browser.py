"""The browser role by itself, judged by the real Chromium: what Paddock writes is what chrome://policy shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roles.browser.table import CHROME, CHROMIUM, FILE, KEY, SNAP
from tests.lab import chromium, planted
from tests.lab.browsing import alone, changed, clear, plant, value, write
from tests.lab.host import LabHost
from tests.unit.test_browser_rules import ROWS, as_bytes

pytestmark = pytest.mark.timeout(900)

PATH = f"{CHROMIUM}/{FILE}"
MODEL = "OptGuideOnDeviceModel/2025.6.30.1229/weights.bin"


@pytest.fixture
def host(with_chromium: LabHost) -> Iterator[LabHost]:
    """With Chromium, and with no policy of anybody's before and after."""
    clear(with_chromium)
    yield with_chromium
    clear(with_chromium)


def test_a_host_without_a_browser_is_not_changed(unbrowsed: LabHost, tmp_path: Path) -> None:
    before = sorted(path.name for path in (unbrowsed.root / "etc").iterdir())
    run = alone(unbrowsed, tmp_path, "-y", "--json")
    assert run.code == 0, run.text
    assert changed(run) == []
    assert run.last_words == ["paddock: browser: no browser is installed"]
    assert sorted(path.name for path in (unbrowsed.root / "etc").iterdir()) == before
    assert not (unbrowsed.root / "home/dev/.local").exists()


def test_chromium_shows_the_policy_as_mandatory(host: LabHost, tmp_path: Path) -> None:
    dry = alone(host, tmp_path, "--dry")
    assert f"{PATH}: absent or not readable, so it will be written; Chromium (deb) will say that it is" in dry.err
    assert not (host.root / CHROMIUM[1:]).exists()
    run = alone(host, tmp_path)
    assert run.code == 0, run.text
    assert run.last_words == ["paddock: browser: local AI models are forbidden to Chromium (deb)"]
    with chromium.running(host) as browser:
        assert browser.policy() == {"value": 1, "level": "mandatory", "source": "platform", "scope": "machine"}
    modes = host.sh(f"stat -c '%a %U %G' {PATH} {CHROMIUM} {CHROMIUM.rpartition('/')[0]}").stdout.splitlines()
    assert modes == ["644 root root", "755 root root", "755 root root"], "whatever root's umask is"
    assert host.sh(f"find {CHROMIUM.rpartition('/')[0]}").stdout.split()[1:] == [CHROMIUM, PATH], "nothing else"


def test_a_second_run_changes_nothing_and_costs_the_probe_and_a_look_at_the_other_users(
    host: LabHost, tmp_path: Path
) -> None:
    assert alone(host, tmp_path).code == 0
    before = host.remote_commands()
    run = alone(host, tmp_path, "-y", "--json")
    assert (run.code, changed(run)) == (0, []), run.text
    assert host.remote_commands() - before == 2


def test_a_running_browser_takes_it_up_and_lets_it_go(host: LabHost, tmp_path: Path) -> None:
    with chromium.running(host) as browser:
        assert browser.policy() is None
        chromium.wait_for_watch(host, CHROMIUM.removesuffix("/policies/managed"))
        assert alone(host, tmp_path).code == 0
        browser.wait_for(lambda policy: policy is not None and policy["value"] == 1)
        (host.root / PATH[1:]).unlink()
        browser.wait_for(lambda policy: policy is None)


@pytest.mark.parametrize(("name", "sees"), [("00-admin.json", 0), ("zz-admin.json", 0)])
def test_an_administrators_word_stands_and_is_named(host: LabHost, tmp_path: Path, name: str, sees: int) -> None:
    write(host, name, f'// because\n{{"{KEY}": 0,}}')
    run = alone(host, tmp_path)
    assert run.code == 0, run.text
    assert f"nothing is written for Chromium (deb): {CHROMIUM}/{name} sets {KEY} to 0, and 1 is wanted" in run.err
    assert run.last_words[-1] == "paddock: browser: not in force for Chromium (deb)"
    assert host.sh(f"ls -A {CHROMIUM}").stdout.split() == [name]
    assert value(host) == sees


def test_a_backup_beside_our_file_wins_and_is_named(host: LabHost, tmp_path: Path) -> None:
    assert alone(host, tmp_path).code == 0
    write(host, f"{FILE}.bak", f'{{"{KEY}": 0}}')
    run = alone(host, tmp_path)
    assert f"{PATH}.bak sets {KEY} to 0" in run.err
    assert run.last_words[-1] == "paddock: browser: not in force for Chromium (deb)"
    assert value(host) == 0


def test_a_broken_neighbour_is_no_obstacle(host: LabHost, tmp_path: Path) -> None:
    write(host, "zz.json", f'{{"{KEY}": 0')
    run = alone(host, tmp_path)
    assert run.last_words == ["paddock: browser: local AI models are forbidden to Chromium (deb)"]
    assert value(host) == 1


def test_a_folder_that_is_closed_is_told_and_stays_closed(host: LabHost, tmp_path: Path) -> None:
    write(host, "admin.json", "{}").parent.chmod(0o700)
    run = alone(host, tmp_path)
    assert f"Chromium (deb) cannot read its policy: {CHROMIUM} is closed to ordinary users; run `chmod" in run.err
    assert host.sh(f"stat -c %a {CHROMIUM}; ls -A {CHROMIUM}").stdout.split() == ["700", "admin.json"]
    assert value(host) == "absent"


def test_further_policies_are_in_force_too(host: LabHost, tmp_path: Path) -> None:
    run = alone(host, tmp_path, browser_policies={"BuiltInAIAPIsEnabled": False, "HelpMeWriteSettings": 2})
    assert run.code == 0, run.text
    with chromium.running(host) as browser:
        found = browser.policies()
    assert {name: (policy["value"], policy.get("error")) for name, policy in found.items()} == {
        KEY: (1, None),
        "BuiltInAIAPIsEnabled": (False, None),
        "HelpMeWriteSettings": (2, None),
    }


def test_wrong_keys_end_the_run_before_any_command(host: LabHost, tmp_path: Path) -> None:
    before = host.remote_commands()
    run = alone(host, tmp_path, browser_policy=["netscape"], browser_polcies={})
    assert run.code == 2
    assert "paddock: browser: browser_polcies: no such key; did you mean browser_policies?" in run.last_words
    assert any("browser_policy='netscape': " in line for line in run.last_words)
    assert host.remote_commands() == before


@pytest.mark.parametrize("row", [row for row in ROWS if row["said"] == "error"], ids=lambda row: row["what"])
def test_a_value_of_the_table_that_is_no_value_is_an_error_in_chromium(host: LabHost, row: dict[str, Any]) -> None:
    for name, text in row["files"].items():
        write(host, name, as_bytes(text))
    assert value(host) in ("Expected integer value.", f"Value is out of range {2}.")


def test_every_other_row_of_the_table_of_files_is_what_chromium_makes_of_it(host: LabHost) -> None:
    """The rules that judge other people's files (roles/browser/rules.py) are tested with the same rows.

    A browser for each row would take minutes, so each has a key of its own, and names that keep its files' order.
    """
    rows = {f"{KEY}{at:02}": row for at, row in enumerate(ROWS) if row["said"] != "error"}
    for key, row in rows.items():
        for name, text in row["files"].items():
            write(host, f"{key}-{name}", as_bytes(text, key))
    with chromium.running(host) as browser:
        found = browser.policies()
    said = {row["what"]: found[key]["value"] if key in found else None for key, row in rows.items()}
    assert said == {row["what"]: row["said"] for row in rows.values()}


def test_snap_and_flatpak_are_told_apart(host: LabHost, tmp_path: Path) -> None:
    """Planted trees: neither snapd nor Flatpak runs in such a container. `snap` answers as snapd's client does."""
    write(host, "snap.yaml", "name: chromium\nversion: 139.0.7258.66\n", "/snap/chromium/current/meta")
    tool = write(host, "snap", "#!/bin/sh\necho 'Interface Plug Slot Notes'\n"
                 "echo 'system-files chromium:etc-chromium-browser-policies - -'\n", "/usr/local/bin")  # fmt: skip
    tool.chmod(0o755)
    app = "/var/lib/flatpak/app/com.google.Chrome/current/active"
    write(host, "metadata", "[Context]\nfilesystems=xdg-download;host-etc;\n", app)
    write(host, "metadata", "[Context]\n", "/var/lib/flatpak/app/org.chromium.Chromium/current/active")
    plant(host, f"/home/dev/snap/chromium/common/chromium/{MODEL}", 5_000_000)
    plant(host, f"/home/dev/.var/app/com.google.Chrome/config/google-chrome/{MODEL}", 7_000_000)
    run = alone(host, tmp_path)
    tool.unlink()
    host.sh("rm -rf /home/dev/snap /home/dev/.var")
    assert run.code == 0, run.text
    for folder in (CHROME, CHROMIUM, SNAP):
        assert host.sh(f"ls -A {folder}").stdout.split() == [FILE]
    for told in (
        "its plug is not connected; run `sudo snap connect chromium:etc-chromium-browser-policies`",
        "Chromium (Flatpak org.chromium.Chromium) is not supported, because its Flatpak does not read the host's /etc",
        "a Flatpak takes it up when it is launched anew",
        "5.0 MB of Chromium's local models in /home/dev/snap/chromium/common/chromium",
        "7.0 MB of Google Chrome's local models in /home/dev/.var/app/com.google.Chrome/config/google-chrome",
        "local AI models are forbidden to Google Chrome (Flatpak com.google.Chrome) and Chromium (deb)",
        "not in force for Chromium (snap)",
    ):
        assert told in run.err


# A stand-in for a model in memory: the model itself is Chrome's, and the card is none. What ends it is not the policy
# but a script that waits for it, as the browser would.
HOLDER = "/usr/lib/chromium/chromium --type=utility --utility-sub-type=on_device_model.mojom.OnDeviceModelService"
REACTION = f"""while ! test -e {PATH}; do sleep 0.2; done
sleep 2
: >/etc/lab-gpu/processes
sed -i s/^memory.used=.*/memory.used=472/ /etc/lab-gpu/card
systemctl stop holder
"""


def test_what_a_model_held_of_the_vram_is_measured_before_and_after(host: LabHost, tmp_path: Path) -> None:
    history = host.root / "home/dev/.local/share/paddock/browser.jsonl"
    planted.healthy(host, card={"memory.used": "3472"})
    try:
        host.sh(f"systemd-run --quiet --unit=holder -p User=guest bash -c 'exec -a \"{HOLDER}\" sleep 600'")
        pid = int(host.sh("systemctl show -p MainPID --value holder").stdout)
        planted.hold(host, planted.Process(pid, "C+G", 3000, HOLDER))
        write(host, "reaction", REACTION, "/var/tmp")
        host.sh("systemd-run --quiet --unit=reaction sh /var/tmp/reaction")
        run = alone(host, tmp_path)
        assert run.code == 0, run.text
        told = "the browsers' local models held 3000 MiB of VRAM before and hold 0 MiB now"
        assert f"{told} (used on all cards: 3472 and 472 MiB)" in run.err
        [line] = map(json.loads, history.read_text().splitlines())
        assert (line["before"], line["after"]) == ({"models": 3000, "cards": 3472}, {"models": 0, "cards": 472})
        (host.root / PATH[1:]).unlink()
        run = alone(host, tmp_path)
        assert "no browser holds a local model in memory now, so there is no VRAM to measure" in run.err
        assert len(history.read_text().splitlines()) == 1
    finally:
        planted.remove(host)


def test_what_another_users_browser_deletes_is_waited_for_and_told_as_gone(host: LabHost, tmp_path: Path) -> None:
    """A stand-in deletes the model as a browser with one would: the folder stays, and root alone may look into it."""
    place = "/home/guest/.config/chromium"
    plant(host, f"{place}/{MODEL}", 3_000_000, "guest")
    host.sh("chmod 700 /home/guest")
    write(host, "reaction", f"while ! test -e {PATH}; do sleep 0.2; done; sleep 3; rm {place}/{MODEL}\n", "/var/tmp")
    with chromium.running(host, f"--user-data-dir={place}"):
        host.sh("systemd-run --quiet --unit=reaction sh /var/tmp/reaction")
        run = alone(host, tmp_path)
    assert run.code == 0, run.text
    assert f"3.0 MB of guest's Chromium's local models in {place} are gone" in run.err
    assert "still there" not in run.err
    assert (host.root / f"{place}/{MODEL}"[1:]).parent.is_dir()


def test_models_are_deleted_only_when_asked_and_only_while_the_browser_is_closed(host: LabHost, tmp_path: Path) -> None:
    places = {user: f"/home/{user}/.config/chromium" for user in ("dev", "guest")}
    for user, place in places.items():
        plant(host, f"{place}/{MODEL}", 3_000_000, user)
        plant(host, f"{place}/Default/precious", 10, user)

    def there() -> list[str]:
        return [user for user, place in places.items() if (host.root / f"{place}/{MODEL}"[1:]).exists()]

    with chromium.running(host, f"--user-data-dir={places['guest']}"):
        run = alone(host, tmp_path)
        assert f"3.0 MB of Chromium's local models in {places['dev']} are still there; it does not run" in run.err
        assert f"3.0 MB of guest's Chromium's local models in {places['guest']} are still there; restart it" in run.err
        assert there() == ["dev", "guest"]
        run = alone(host, tmp_path, browser_delete_models=True)
        assert run.code == 0, run.text
        assert f"in {places['guest']} are not deleted: the browser runs; close it, and run again" in run.err
        assert there() == ["guest"]
    stuck = f"{places['guest']}/OptGuideManifestModel/0a1b"
    host.sh(f"mkdir -p {stuck} && echo >{stuck}/root && chown -R guest: {stuck}/.. && chown root: {stuck}")
    run = alone(host, tmp_path, browser_delete_models=True)
    assert run.code == 0, run.text
    assert f"delete the local models in {places['guest']}: [Errno 13] Permission denied" in run.err
    host.sh(f"chown guest: {stuck}")
    run = alone(host, tmp_path, browser_delete_models=True)
    assert run.code == 0, run.text
    assert there() == []
    for place in places.values():
        assert (host.root / f"{place}/Default/precious"[1:]).exists()
    assert run.last_words == ["paddock: browser: local AI models are forbidden to Chromium (deb)"]
