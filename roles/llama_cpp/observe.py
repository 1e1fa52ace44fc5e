"""What the host has to build llama.cpp with and for, and the releases that stand there."""

from __future__ import annotations

from typing import Any

from roles.observation import Fragment, Seen
from roles.probe_tools import entries, find_command, node, read, run


def look_at_llama_cpp(ask: dict[str, Any]) -> dict[str, Any]:
    """Runs on the host."""
    import json
    import os
    import re

    folder = os.path.expanduser("~/.local/share/paddock/releases")
    releases, options, shelf = {}, {}, {}
    for name in entries(folder):
        try:
            stamp = json.loads(read(os.path.join(folder, name, "stamp.json")) or "null")
        except ValueError:
            continue
        if name.startswith(".") or not isinstance(stamp, dict):
            continue
        # Whole by names, sizes and modes: what somebody removed or cut would be missed at the next start only.
        whole = bool(sizes := read(os.path.join(folder, name, "sizes")))
        written = node(os.path.join(folder, name, "stamp.json"))
        shelf[name] = {"size": 0, "built_ns": written["mtime_ns"] if written else 0}
        for line in (sizes or "").splitlines():
            size, mode, file = [*line.split(" ", 2), "", ""][:3]
            shelf[name]["size"] += int(size) if size.isdigit() else 0
            at = node(os.path.join(folder, name, file)) or {"size": None, "mode": 0}
            whole = whole and (str(at["size"]), f"{at['mode']:o}") == (size, mode)
        options[name] = (read(os.path.join(folder, name, "flags.txt")) or "").split()
        if not whole or not options[name]:
            continue
        # And by the system's own libraries, which an upgrade of the distribution may have taken away.
        linked = run(["ldd", os.path.join(folder, name, "bin", "llama-server")])
        if not linked or "not found" not in linked["out"]:
            releases[name] = stamp
    # What somebody refers to stays: any unit of this user's, what would come back, and what runs.
    units = os.path.expanduser("~/.config/systemd/user")
    paths = [units + "/" + name for name in entries(units)]
    paths += ["/etc/systemd/system/" + name for name in entries("/etc/systemd/system")]
    paths += [path + "/" + name for path in paths if path.endswith(".d") for name in entries(path)]
    paths += [folder + "/last-good.json" for folder in (os.path.dirname(folder), "/var/lib/paddock")]
    texts = [read(path) or "" for path in paths]
    for process in entries("/proc") if shelf else []:
        try:
            texts.append(os.readlink("/proc/" + process + "/exe"))
        except OSError:
            continue
    in_use = [name for name in shelf if any("/releases/" + name + "/" in text for text in texts)]
    compilers = {}
    for name in ["g++", *sorted({name for name in entries("/usr/bin") if re.fullmatch(r"g\+\+-\d+", name)})]:
        path = find_command(name)
        told = run([path, "-dumpfullversion", "-dumpversion"]) if path else None
        if told and told["rc"] is None:
            raise RuntimeError(name + " does not answer")  # a version left out would look like another compiler
        if path and told and told["rc"] == 0:
            compilers[path] = told["out"].strip()
    libc = run(["getconf", "GNU_LIBC_VERSION"])
    if libc and libc["rc"] is None:
        raise RuntimeError("getconf does not answer")
    # In no PATH of a service: Arch's and NVIDIA's own folders. Which is taken is decided by version, not by place.
    local = ["/usr/local/" + name for name in entries("/usr/local") if name.startswith("cuda")]
    on_path = os.path.dirname(os.path.dirname(find_command("nvcc") or "/usr/bin/nvcc"))
    named = os.path.expanduser(ask["toolkit"]) if ask["toolkit"] != "auto" else None
    toolkits = {}
    for root in [*([named] if named else []), *local, "/opt/cuda", "/usr", on_path] if ask["cuda"] else []:
        nvcc = os.path.realpath(os.path.join(root, "bin", "nvcc"))
        told = run([nvcc, "--version"]) if nvcc not in toolkits and os.access(nvcc, os.X_OK) else None
        if told and told["rc"] is None:
            raise RuntimeError(nvcc + " does not answer")
        version = re.search(r"release (\d+\.\d+)", told["out"]) if told else None
        if not version:
            continue
        header = ""
        for include in ("include", "targets/x86_64-linux/include"):
            base = os.path.dirname(os.path.dirname(nvcc))
            header = header or read(os.path.join(base, include, "crt/host_config.h")) or ""
        newest = re.search(r"__GNUC__\s*>\s*(\d+)", header)
        toolkits[nvcc] = {"version": version.group(1), "gcc_max": int(newest.group(1)) if newest else None}
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", read("/proc/cpuinfo", 1 << 16) or "", re.M)
    return {
        "releases": releases,
        "options": {name: options[name] for name in releases},
        "shelf": shelf,
        "in_use": in_use,
        "compilers": compilers,
        "libc": (libc or {}).get("out", "").strip(),
        "cpu_flags": sorted((flags.group(1) if flags else "").split()),
        "toolkits": toolkits,
        "named_toolkit": os.path.realpath(os.path.join(named, "bin", "nvcc")) if named else None,
    }


class ToolkitSeen(Seen):
    """`gcc_max`: the newest gcc that the toolkit's own header allows; None where it does not say."""

    version: str
    gcc_max: int | None = None


class Shelved(Seen):
    """A release as it lies there, whole or not: its size in bytes, and when it was finished."""

    size: int
    built_ns: int


class LlamaCppSeen(Seen):
    """`releases`: the stamps of those that are whole, by key; `options`: what their `--help` knows;
    `shelf`: all that lie there; `in_use`: those that a unit, the last good or a process refers to. `compilers`:
    version by path of g++. `toolkits`: by path of nvcc; `named_toolkit`: the one that the inventory names."""

    releases: dict[str, dict[str, Any]]
    options: dict[str, tuple[str, ...]]
    shelf: dict[str, Shelved]
    in_use: tuple[str, ...]
    compilers: dict[str, str]
    libc: str
    cpu_flags: tuple[str, ...]
    toolkits: dict[str, ToolkitSeen]
    named_toolkit: str | None = None

    @property
    def compiler(self) -> str | None:
        """The path of the default g++."""
        return next((path for path in self.compilers if path.endswith("/g++")), None)


def ask_for_llama_cpp(wishes: Any) -> dict[str, Any]:
    wanted = wishes.settings.llama_cpp
    toolkit = wishes.toolkit.folder if wishes.toolkit else wanted.cuda_toolkit
    return {"cuda": wanted.backend in ("auto", "cuda"), "toolkit": toolkit}


LLAMA_CPP = Fragment("llama_cpp", look_at_llama_cpp, ask_for_llama_cpp, LlamaCppSeen)
