"""What is said about browsers: one place for the sentences, so that each says what is wrong and what to do. Pure."""

from __future__ import annotations

import re

from roles.browser.observe import Install
from roles.browser.observe_models import Profile
from roles.browser.table import BY_ID, FILE, SINCE, Row


def title(install: Install) -> str:
    """The browser, with what tells its packaging apart."""
    row = BY_ID[install.id]
    if install.packaging == "flatpak":
        return f"{row.title} (Flatpak {row.packages[0]})"
    return row.title if install.packaging == "other" else f"{row.title} ({install.packaging})"


def size(amount: int) -> str:
    """Bytes for people."""
    return f"{amount / 1e9:.1f} GB" if amount >= 1e8 else f"{amount / 1e6:.1f} MB"


def printable(text: str) -> str:
    """What anybody's process says of itself, without what a terminal would act on."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def writing(folder: str, why: str, readers: list[str]) -> str:
    """The reason for our file in a folder, with the side effect that alarms people, before it is there."""
    page = next(row.verify for row in BY_ID.values() if row.folder == folder)
    when = "; a Flatpak takes it up when it is launched anew" if any("(Flatpak" in name for name in readers) else ""
    effect = f"{' and '.join(readers)} will say that it is managed by your organization, and show it in {page}"
    return f"{folder}/{FILE}: {why}; {effect}{when}"


def unseen(what: str, why: str) -> str:
    return f"{what} could not be looked at ({why}), so nothing is done about them"


def closed(readers: list[str], folder: str) -> str:
    names = " and ".join(readers)
    return f"{names} cannot read its policy: {folder} is closed to ordinary users; run `chmod 0755 {folder}`"


def clashing(readers: list[str], why: str) -> str:
    names = " and ".join(readers)
    return f"nothing is written for {names}: {why}; change it there, or name other browsers in browser_policy"


def is_told(row: Row) -> bool:
    """Whether every run says that it is not supported: Firefox holds no model of this kind, and most hosts have it."""
    return row.browser != "firefox"


def unsupported(install: Install, row: Row) -> str:
    return f"{title(install)} is not supported, because {row.why_not}"


def unreached(install: Install, row: Row) -> str | None:
    """What keeps a snap or a Flatpak from the folder that its policy is in."""
    name = row.packages[0] if row.packages else ""
    if install.packaging == "snap" and install.reaches is not True:
        plug = f"{name}:etc-chromium-browser-policies"
        told = "does not read its policy: its plug is not connected" if install.reaches is False else (
            "reads its policy only where its plug is connected, and snapd does not tell"
        )  # fmt: skip
        return f"{title(install)} {told}; run `sudo snap connect {plug}`"
    if install.packaging == "flatpak" and install.reaches is not True:
        told = "does not read its policy: it may not see the host's /etc" if install.reaches is False else (
            "reads its policy only where it may see the host's /etc, which cannot be told here"
        )  # fmt: skip
        return (
            f"{title(install)} {told}; run `flatpak override --user --filesystem=host-etc {name}`, and launch it anew"
        )
    return None


def outdated(install: Install, row: Row, last_used: str | None) -> str | None:
    """A browser that does not know the policy yet."""
    version = install.version if row.numbered and install.version else last_used
    number = major(version)
    if number is None or number >= SINCE:
        return None
    return f"{title(install)} is version {version}, and the policy is known from {SINCE} on; update it"


def major(version: str | None) -> int | None:
    """Chromium's major version; an epoch before it is the distribution's."""
    found = re.match(r"(?:\d+:)?(\d+)\.", version or "")
    return int(found[1]) if found else None


def whose(profile: Profile) -> str:
    """A browser's models, and where they are."""
    owner = f"{profile.owner}'s " if profile.owner else ""
    row = BY_ID.get(profile.id)
    return f"{size(profile.size)} of {owner}{row.title if row else 'a browser'}'s local models in {profile.path}"


def still_there(profile: Profile) -> str:
    """Why models are there although the policy is in force."""
    row = BY_ID.get(profile.id)
    if profile.running and row and row.packaging == "flatpak":
        what = "launch it anew: it reads its policies then"
    elif profile.running:
        what = "restart it"
    else:
        what = "it does not run"
    return (
        f"{whose(profile)} are still there; {what}. From about version 142 on it deletes them by itself while it runs,"
        " an older one may keep them until its 30 days are over; browser_delete_models=True deletes them when closed"
    )


def not_covered(profile: Profile) -> str:
    """Models that nothing keeps from VRAM."""
    return f"{whose(profile)} are on disk, and the policy is not in force for it"


def kept_without_policy(profile: Profile) -> str:
    return f"{whose(profile)} are not deleted: the policy is not in force for it, and it would fetch them again"


def kept_while_running(profile: Profile) -> str:
    return f"{whose(profile)} are not deleted: the browser runs; close it, and run again"
