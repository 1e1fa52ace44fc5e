"""The packages role: what building and downloading need from the distribution."""

from pyinfra.api import deploy

from roles.packages import operations
from roles.settings import LlamaCpp


@deploy("Packages")
def packages(wanted: LlamaCpp) -> None:
    operations.installed(name="Install what building needs", wanted=wanted)
