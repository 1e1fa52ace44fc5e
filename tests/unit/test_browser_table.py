"""The browsers as data: where each reads its policy, and where it keeps its models."""

from __future__ import annotations

from typing import get_args

import pytest

from roles.browser.table import BRAVE, BY_ID, CHROME, CHROMIUM, FOLDERS, ROWS, SNAP, TESTING, default_folder
from roles.settings.values import BrowserName
from tests.unit.planted_browsers import HOMES

# Every row: the folder where it reads policies (Chromium's policy_paths.cc, Flathub's launchers), or none.
PATHS = {
    "Google Chrome (native)": CHROME,
    "Google Chrome beta (native)": CHROME,
    "Google Chrome dev (native)": CHROME,
    "Google Chrome canary (native)": CHROME,
    "Google Chrome (com.google.Chrome)": CHROME,
    "Google Chrome dev (com.google.ChromeDev)": None,
    "Chrome for Testing (native)": TESTING,
    "Chromium (native)": CHROMIUM,
    "Chromium (snap)": SNAP,
    "Chromium (org.chromium.Chromium)": None,
    "ungoogled-chromium (io.github.ungoogled_software.ungoogled_chromium)": None,
    "Brave (native)": BRAVE,
    "Brave beta (native)": BRAVE,
    "Brave nightly (native)": BRAVE,
    "Brave (com.brave.Browser)": BRAVE,
    "Brave (snap)": None,
    "Microsoft Edge (native)": None,
    "Microsoft Edge beta (native)": None,
    "Microsoft Edge dev (native)": None,
    "Microsoft Edge (com.microsoft.Edge)": None,
    "Vivaldi (native)": None,
    "Vivaldi (snap)": None,
    "Vivaldi (com.vivaldi.Vivaldi)": None,
    "Opera (native)": None,
    "Opera (snap)": None,
    "Opera (com.opera.Opera)": None,
    "Firefox (native)": None,
    "Firefox (snap)": None,
    "Firefox (org.mozilla.firefox)": None,
}


def test_every_browser_has_its_folder_or_the_reason_why_it_has_none() -> None:
    assert {name: row.folder for name, row in BY_ID.items()} == PATHS
    assert len(BY_ID) == len(ROWS)
    assert all(bool(row.folder) != bool(row.why_not) for row in ROWS)
    assert {row.folder for row in ROWS if row.folder} == set(FOLDERS)
    assert {row.browser for row in ROWS if row.folder} == set(get_args(BrowserName))


@pytest.mark.parametrize("name", HOMES)
def test_every_packaging_has_its_own_user_data_directory(name: str) -> None:
    assert BY_ID[name].data == (HOMES[name],)


@pytest.mark.parametrize("browser", get_args(BrowserName))
def test_a_browser_that_is_not_there_has_a_folder_all_the_same(browser: str) -> None:
    folders = {row.folder for row in ROWS if row.browser == browser}
    assert default_folder(browser, "debian") in folders
    assert default_folder(browser, "ubuntu") in folders
