"""SSH without Nagle's algorithm: with delayed acknowledgements each remote command would wait 40 ms for nothing."""

import socket
from typing import Any

from paramiko import Transport


def without_delay(sock: Any, **kwargs: Any) -> Transport:
    """paramiko's transport on a socket with TCP_NODELAY; for `ssh_paramiko_connect_kwargs`."""
    if isinstance(sock, socket.socket):  # through a jump host it is a channel
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Transport(sock, **kwargs)
