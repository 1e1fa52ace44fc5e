"""The packages role: what building and downloading need from the distribution."""

from pyinfra.api import deploy

from roles.packages import operations


@deploy("Packages")
def packages() -> None:
    operations.installed(name="Install what building needs")
