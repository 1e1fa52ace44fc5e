"""The lab's network: one bridge, a network namespace per host, and a way out by masquerade.

A host's namespace is made and addressed from outside and outlives the host's own reboot, so nothing inside a host
configures a network. Everything is found again by its name, also by another process after a crash.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.lab.common import Lab, LabError, run

FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
SAVED_FORWARD = Path("/run/paddock-lab.ip_forward")  # what it was before the first lab of this machine


def ensure(lab: Lab) -> None:
    """Make the bridge, its two addresses, forwarding and the nft table; also the rest, where a killed process began."""
    mark = lab.run_dir / "network.json"
    if not mark.exists():
        if bridge_exists(lab):
            raise LabError(
                f"The interface {lab.bridge} exists already and this lab did not make it: another lab runs on this "
                "machine; stop it (`python -m tests.lab down`) or give this one its own PADDOCK_LAB_RUN, "
                "PADDOCK_LAB_BRIDGE and PADDOCK_LAB_NET."
            )
        refuse_taken_subnet(lab)
        mark.write_text(json.dumps({"bridge": lab.bridge, "table": lab.table}))
    make_bridge(lab)
    forward_out(lab)


def bridge_exists(lab: Lab) -> bool:
    return run(["ip", "link", "show", lab.bridge], check=False).returncode == 0


def table_exists(lab: Lab) -> bool:
    return run(["nft", "list", "table", "ip", lab.table], check=False).returncode == 0


def refuse_taken_subnet(lab: Lab) -> None:
    """Fail when the machine already has a route for the lab's addresses."""
    routes = run(["ip", "-4", "route", "show", "root", lab.subnet]).stdout.split("\n")
    if any(routes):
        raise LabError(
            f"This machine already has a route to {lab.subnet} ({next(filter(None, routes)).strip()}); "
            "choose other addresses with PADDOCK_LAB_NET."
        )


def make_bridge(lab: Lab) -> None:
    """A bridge without spanning tree (ports work at once) and without IPv6 (nothing else is opened)."""
    if not bridge_exists(lab):
        kind = ["type", "bridge", "stp_state", "0", "forward_delay", "0"]
        run(["ip", "link", "add", lab.bridge, "mtu", str(uplink_mtu()), *kind])
    ipv6 = Path(f"/proc/sys/net/ipv6/conf/{lab.bridge}/disable_ipv6")
    if ipv6.exists():
        ipv6.write_text("1")
    for address in (lab.gateway, lab.cdn):
        run(["ip", "address", "replace", f"{address}/24", "dev", lab.bridge])
    run(["ip", "link", "set", lab.bridge, "up"])


def uplink_mtu() -> int:
    """The largest packet that the way out takes: a host that believes in 1500 would hang where it is less."""
    for route in json.loads(run(["ip", "-j", "-4", "route", "show", "default"]).stdout or "[]"):
        return mtu_of(route["dev"])
    return 1500


def mtu_of(device: str) -> int:
    return int(json.loads(run(["ip", "-j", "link", "show", device]).stdout)[0]["mtu"])


def forward_out(lab: Lab) -> None:
    """Masquerade what leaves the lab; let nobody in, and forward for nobody else if the machine did not before."""
    if not SAVED_FORWARD.exists():
        SAVED_FORWARD.write_text(FORWARD.read_text())
    if table_exists(lab):
        FORWARD.write_text("1\n")
        return
    closed = SAVED_FORWARD.read_text().strip() == "0"
    others = 'iifname != "paddock*" ct state new drop' if closed else ""
    run(
        ["nft", "-f", "-"],
        stdin=f"""
table ip {lab.table} {{
  chain out {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {lab.subnet} oifname != "{lab.bridge}" masquerade
  }}
  chain forward {{
    type filter hook forward priority filter; policy accept;
    oifname "{lab.bridge}" iifname != "{lab.bridge}" ct state != {{ established, related }} drop
    {others}
  }}
}}
""",
    )
    FORWARD.write_text("1\n")


def firewall_warning(lab: Lab) -> str:
    """One sentence when a firewall of this machine drops what the lab needs, as Docker's and ufw's do; else nothing."""
    chains = run(["nft", "list", "chains"], check=False).stdout
    hooks = {hook for hook in ("forward", "input") if re.search(rf"hook {hook} [^\n]*policy drop", chains)}
    if not hooks:
        return ""
    return (
        f"A firewall on this machine drops packets by default ({' and '.join(sorted(hooks))}): if hosts reach neither "
        f"the mirrors nor the hub, let the interface {lab.bridge} through in both directions."
    )


def attach(lab: Lab, name: str, index: int) -> None:
    """Give a host its network namespace: `host0` with its address, a default route, the other end on the bridge."""
    space, outside = lab.unit(name), f"{lab.bridge}.{index}"
    detach(lab, name, index)
    mtu = str(mtu_of(lab.bridge))
    octets = [int(part) for part in lab.net.split(".")]
    # A fixed hardware address: a host made anew under an old address is reachable at once.
    mac = "02:4c:" + ":".join(f"{part:02x}" for part in (*octets, index))
    run(["ip", "netns", "add", space])
    peer = ["peer", "name", "host0", "mtu", mtu, "address", mac, "netns", space]
    run(["ip", "link", "add", outside, "mtu", mtu, "type", "veth", *peer])
    run(["ip", "link", "set", outside, "master", lab.bridge, "up"])
    inside = ["ip", "-n", space]
    run([*inside, "address", "add", f"{lab.net}.{index}/24", "dev", "host0"])
    run([*inside, "link", "set", "lo", "up"])
    run([*inside, "link", "set", "host0", "up"])
    run([*inside, "route", "add", "default", "via", lab.gateway])


def detach(lab: Lab, name: str, index: int) -> None:
    """Take a host's namespace away, and with it both ends of its cable."""
    run(["ip", "link", "delete", f"{lab.bridge}.{index}"], check=False)
    run(["ip", "netns", "delete", lab.unit(name)], check=False)


def namespace_pids(lab: Lab, name: str) -> list[int]:
    """Every process of a host, whatever became of the one that started it."""
    done = run(["ip", "netns", "pids", lab.unit(name)], check=False)
    return [int(pid) for pid in done.stdout.split()] if done.returncode == 0 else []


def remove(lab: Lab) -> None:
    """Take back what `ensure` made; forwarding is as before once the last lab of the machine is gone."""
    mark = lab.run_dir / "network.json"
    if not mark.exists():
        return
    run(["nft", "delete", "table", "ip", lab.table], check=False)
    run(["ip", "link", "delete", lab.bridge], check=False)
    tables = run(["nft", "list", "tables", "ip"]).stdout
    if "paddock_lab" not in tables and SAVED_FORWARD.exists():
        FORWARD.write_text(SAVED_FORWARD.read_text())
        SAVED_FORWARD.unlink()
    mark.unlink()
