"""The browsers as data: how each of them comes, where it is found, where it reads its policy and keeps its models.

A row is one way in which one browser is installed. Sources: Chromium's policy_paths.cc and chrome_paths_linux.cc, the
launchers of Flathub's packages (chrome.sh, brave.sh), Brave's brave_main_delegate.cc, Chrome's enterprise pages. What
no source shows for Linux has no folder here but a sentence (`why_not`), and nothing is guessed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

KEY = "GenAILocalFoundationalModelSettings"
SINCE = 124  # the first major version that knows KEY: supported_on in its definition, chrome.*:124-
FILE = "paddock.json"

CHROME = "/etc/opt/chrome/policies/managed"  # one branding path for every channel
TESTING = "/etc/opt/chrome_for_testing/policies/managed"
CHROMIUM = "/etc/chromium/policies/managed"
SNAP = "/etc/chromium-browser/policies/managed"
BRAVE = "/etc/brave/policies/managed"
FOLDERS = (CHROME, TESTING, CHROMIUM, SNAP, BRAVE)

# What a browser keeps its local models in, at the root of a user-data directory: Chrome's
# optimization_guide_on_device_model_installer.cc, and its successor's manifest_asset_manager.cc.
MODEL_FOLDERS = ("OptGuideOnDeviceModel", "OptGuideOnDeviceClassifierModel", "OptGuideManifestModel")
# The process that holds a model while it is used and about a minute after; its sandbox has the same name.
MODEL_SERVICE = "on_device_model.mojom.OnDeviceModelService"

EXTENSION_POINT = "its Flatpak does not read the host's /etc, only its extension point org.chromium.Chromium.Policy"
NO_SOURCE = "public sources contradict each other about where it reads policies on Linux"
EDGE = "Microsoft documents this policy for Windows and macOS only"
FIREFOX = "its AI is not Chrome's, and has policies of its own"
UNSHOWN = "nothing shows that this package reads policies from the host's /etc"


@dataclass(frozen=True)
class Row:
    """One way in which a browser is installed.

    `marks`: files of which one tells that it is there (`~`, `*`); `command`: the same, in the PATH. `packages`: its
    names in package managers, for snap and Flatpak the one it is known by. `programs`: how its processes' command lines
    begin; none for a Flatpak, whose programs lie where another's do: its processes are known by their scope. `data`:
    user-data directories in the home. `folder`: where it reads policies, or `why_not`. `numbered`: the package's
    version begins with Chromium's major version. `verify`: the page that shows what is in force.
    """

    browser: str
    title: str
    packaging: Literal["native", "snap", "flatpak"]
    marks: tuple[str, ...]
    packages: tuple[str, ...]
    programs: tuple[str, ...]
    data: tuple[str, ...] = ()
    folder: str | None = None
    why_not: str = ""
    command: str = ""
    numbered: bool = True
    verify: str = "chrome://policy"


def _chrome(title: str, place: str, data: str, *packages: str) -> Row:
    home = f"/opt/google/{place}/"
    command = packages[0]
    return Row(
        "chrome", title, "native", (home + "chrome",), packages, (home,), (data,), CHROME, command=command
    )  # fmt: skip


def _native(browser: str, title: str, *homes: str, package: str, data: str = "", **more: Any) -> Row:
    """A browser whose program is one of `homes`; `package`: its names, with spaces between them."""
    programs = tuple(home.rpartition("/")[0] + "/" for home in homes)
    return Row(browser, title, "native", homes, tuple(package.split()), programs, (data,) if data else (), **more)


def _snap(browser: str, title: str, name: str, data: str = "", **more: Any) -> Row:
    marks = (f"/snap/{name}/current", f"/var/lib/snapd/snap/{name}/current")
    programs = (f"/snap/{name}/", f"/var/lib/snapd/snap/{name}/")
    return Row(browser, title, "snap", marks, (name,), programs, (data,) if data else (), **more)


def _flatpak(browser: str, title: str, app: str, data: str = "", **more: Any) -> Row:
    marks = (f"/var/lib/flatpak/app/{app}/current", f"~/.local/share/flatpak/app/{app}/current")
    where = (f".var/app/{app}/config/{data}",) if data else ()
    return Row(browser, title, "flatpak", marks, (app,), (), where, **more)


def _brave(title: str, suffix: str, *more: str) -> Row:
    homes = (f"/opt/brave.com/brave{suffix}/brave", *more)
    data = f".config/BraveSoftware/Brave-Browser{suffix.title()}"
    more_of_it: dict[str, Any] = {"folder": BRAVE, "numbered": False, "verify": "brave://policy"}
    return _native("brave", title, *homes, package=f"brave-browser{suffix} brave{suffix}-bin", data=data, **more_of_it)


def _edge(channel: str) -> Row:
    home, title = f"/opt/microsoft/msedge{channel}/msedge", f"Microsoft Edge{channel.replace('-', ' ')}"
    package = f"microsoft-edge{channel or '-stable'}"
    data = f".config/microsoft-edge{channel}"
    return _native("edge", title, home, package=f"{package} {package}-bin", data=data, why_not=EDGE)


ROWS: tuple[Row, ...] = (
    _chrome("Google Chrome", "chrome", ".config/google-chrome", "google-chrome-stable", "google-chrome"),
    _chrome("Google Chrome beta", "chrome-beta", ".config/google-chrome-beta", "google-chrome-beta"),
    _chrome("Google Chrome dev", "chrome-unstable", ".config/google-chrome-unstable", "google-chrome-unstable",
            "google-chrome-dev"),
    _chrome("Google Chrome canary", "chrome-canary", ".config/google-chrome-canary", "google-chrome-canary"),
    _flatpak("chrome", "Google Chrome", "com.google.Chrome", "google-chrome", folder=CHROME),
    _flatpak("chrome", "Google Chrome dev", "com.google.ChromeDev", "google-chrome-unstable",
             why_not=UNSHOWN),
    Row("chrome-for-testing", "Chrome for Testing", "native",
        ("~/.cache/puppeteer/chrome/*/*/chrome", "~/.cache/selenium/chrome/*/*/chrome"), (),
        ("~/.cache/puppeteer/chrome/", "~/.cache/selenium/chrome/"), (".config/google-chrome-for-testing",), TESTING),
    _native("chromium", "Chromium", "/usr/lib/chromium/chromium", "/usr/lib64/chromium-browser/chromium-browser",
            package="chromium", data=".config/chromium", folder=CHROMIUM, command="chromium"),
    _snap("chromium", "Chromium", "chromium", "snap/chromium/common/chromium", folder=SNAP),
    _flatpak("chromium", "Chromium", "org.chromium.Chromium", "chromium", why_not=EXTENSION_POINT),
    _flatpak("chromium", "ungoogled-chromium", "io.github.ungoogled_software.ungoogled_chromium",
             "chromium", why_not=EXTENSION_POINT),
    _brave("Brave", "", "/opt/brave-bin/brave"),
    _brave("Brave beta", "-beta"),
    _brave("Brave nightly", "-nightly"),
    _flatpak("brave", "Brave", "com.brave.Browser", "BraveSoftware/Brave-Browser", folder=BRAVE,
             verify="brave://policy"),
    _snap("brave", "Brave", "brave", why_not=UNSHOWN),
    _edge(""), _edge("-beta"), _edge("-dev"),
    _flatpak("edge", "Microsoft Edge", "com.microsoft.Edge", "microsoft-edge", why_not=EDGE),
    _native("vivaldi", "Vivaldi", "/opt/vivaldi/vivaldi-bin", package="vivaldi-stable vivaldi", data=".config/vivaldi",
            why_not=NO_SOURCE),
    _snap("vivaldi", "Vivaldi", "vivaldi", why_not=NO_SOURCE),
    _flatpak("vivaldi", "Vivaldi", "com.vivaldi.Vivaldi", "vivaldi", why_not=NO_SOURCE),
    _native("opera", "Opera", "/usr/lib/x86_64-linux-gnu/opera/opera", "/usr/lib64/opera/opera",
            "/usr/lib/opera/opera", package="opera-stable opera", data=".config/opera", why_not=NO_SOURCE),
    _snap("opera", "Opera", "opera", why_not=NO_SOURCE),
    _flatpak("opera", "Opera", "com.opera.Opera", "opera", why_not=NO_SOURCE),
    _native("firefox", "Firefox", "/usr/lib/firefox/firefox", "/usr/lib64/firefox/firefox",
            "/usr/lib/firefox-esr/firefox-esr", "/opt/firefox/firefox", package="firefox firefox-esr", why_not=FIREFOX),
    _snap("firefox", "Firefox", "firefox", why_not=FIREFOX),
    _flatpak("firefox", "Firefox", "org.mozilla.firefox", why_not=FIREFOX),
)  # fmt: skip


def row_id(row: Row) -> str:
    """What a row is called in an observation."""
    return f"{row.title} ({row.packages[0] if row.packaging == 'flatpak' else row.packaging})"


BY_ID = {row_id(row): row for row in ROWS}


def as_asked() -> list[dict[str, Any]]:
    """The rows for the host's side of the probe."""
    return [{"id": name, **asdict(row)} for name, row in BY_ID.items()]


def default_folder(browser: str, os_id: str) -> str:
    """Where the policy goes ahead of a browser that is not installed: Ubuntu has Chromium as a snap only."""
    return {"chrome": CHROME, "chrome-for-testing": TESTING, "brave": BRAVE}.get(
        browser, SNAP if os_id == "ubuntu" else CHROMIUM
    )
