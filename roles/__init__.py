"""Paddock's roles. The function is here for the name that people type: `pyinfra -y INVENTORY roles.remove`."""


def remove() -> None:
    """Take back from this host what Paddock's record says it made there, and only that."""
    from roles.removal.deploy import removal  # every module of Paddock imports this package first

    removal()
