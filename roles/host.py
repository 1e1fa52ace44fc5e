"""The host itself, as every role needs to know it: who we are there, what it runs, what it has."""

from __future__ import annotations

from typing import Any, Literal

from roles.observation import Fragment, Seen
from roles.probe_tools import find_command, owner, read, run


def look_at_host(ask: dict[str, Any]) -> dict[str, Any]:
    """Runs on the host."""
    import os
    import pwd

    me = pwd.getpwuid(os.getuid())
    release = {}
    for line in (read("/etc/os-release") or "").splitlines():
        key, _, value = line.partition("=")
        release[key] = value.strip("\"'")
    memory = {}
    for line in (read("/proc/meminfo") or "").splitlines():
        key, _, value = line.partition(":")
        memory[key] = int(value.split()[0]) * 1024
    root = "is"
    if os.getuid() != 0:
        sudo = run(["sudo", "-n", "true"])
        root = "none" if sudo is None else "free" if sudo["rc"] == 0 else "password"
    own = f"/run/user/{os.getuid()}"
    os.environ.setdefault("XDG_RUNTIME_DIR", own)
    group = f"/sys/fs/cgroup/user.slice/user-{os.getuid()}.slice/user@{os.getuid()}.service/cgroup.controllers"
    data = me.pw_dir + "/.local/share/paddock"
    away = ask["away"]
    moved = away in (read(away + "/created/paths") or "").splitlines() and owner(away) == os.getuid()
    return {
        "data": away if os.path.islink(data) and os.readlink(data) == away else "",
        "stranded": moved and not os.path.islink(data),
        "user": me.pw_name,
        "uid": os.getuid(),
        "home": me.pw_dir,
        "machine": os.uname().machine,
        "os_id": release.get("ID", ""),
        "os_like": release.get("ID_LIKE", ""),
        "os_name": release.get("PRETTY_NAME", "unknown Linux"),
        "root": root,
        "systemd": os.path.isdir("/run/systemd/system"),
        "user_manager": os.path.exists(own + "/systemd/private"),
        "lingers": os.path.exists("/var/lib/systemd/linger/" + me.pw_name),
        "memory_capped": "memory" in (read(group) or "").split(),
        "system_capped": "memory" in (read("/sys/fs/cgroup/cgroup.controllers") or "").split(),
        "memory_total": memory.get("MemTotal", 0),
        "cpus": len(os.sched_getaffinity(0)),
        "certificates": any(os.path.exists(path) for path in ask["certificates"]),
        "commands": {name: find_command(name) for name in ask["commands"]},
    }


class HostSeen(Seen):
    """Memory in bytes. `root`: how root is reached; `commands`: absolute paths, None where missing. `data`: where the
    user's own folder of data is, if that is a link of ours; else empty. `stranded`: a killed move has left it there
    without a link. `memory_capped`, `system_capped`: whether a cap
    on the user's and on the system's units is enforced."""

    user: str
    uid: int
    home: str
    machine: str
    os_id: str
    os_like: str
    os_name: str
    root: Literal["is", "free", "password", "none"]
    systemd: bool
    user_manager: bool
    lingers: bool
    memory_capped: bool
    system_capped: bool = False
    memory_total: int
    cpus: int
    certificates: bool
    commands: dict[str, str | None]
    data: str = ""
    stranded: bool = False

    def can_be_root(self, has_password: bool) -> bool:
        return self.root in ("is", "free") or (self.root == "password" and has_password)

    @property
    def data_dir(self) -> str:
        """Where Paddock keeps what it builds, downloads and remembers on this host."""
        return self.data or self.own_data

    @property
    def own_data(self) -> str:
        """The same in the user's home: the folder itself, or a link to it."""
        return f"{self.home}/.local/share/paddock"

    def located(self, path: str) -> str:
        """A path without the link in the user's home, which the account of a system's service may not follow."""
        own = self.own_data + "/"
        return f"{self.data_dir}/{path[len(own) :]}" if path.startswith(own) else path

    @property
    def record(self) -> str:
        """Where it is kept what Paddock made on this host, for the day when it is removed."""
        return f"{self.data_dir}/created"


# What building, downloading and waiting need; roles.distribution knows which package brings each.
COMMANDS = ("git", "cmake", "ninja", "g++", "ccache", "curl")

# Releases and models of a system's service: nothing that runs is below a home, and by SELinux's own rules for /opt its
# bin and lib folders are programs and libraries. The folder is the connecting user's, who builds and downloads there.
AWAY = "/opt/paddock"

# Where distributions keep the certificates that https is checked with.
BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # the one that newer releases of Fedora keep
    "/etc/ssl/cert.pem",
)

HOST = Fragment("host", look_at_host, lambda _: {"commands": COMMANDS, "certificates": BUNDLES, "away": AWAY}, HostSeen)


def no_root(seen: HostSeen, what: str) -> str:
    """The sentence about something that only root may do."""
    if seen.root == "password":
        how = f"if {seen.user} may use sudo, run again with --same-sudo-password"
        return f"{what}: root is needed and sudo wants a password; {how}"
    return f"{what}: root is needed and {seen.user} has none"
