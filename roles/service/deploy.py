"""The service role: llama-server as a capped user unit that starts at boot."""

from pyinfra.api import deploy

from roles.service import operations
from roles.wishes import Wishes


@deploy("Service")
def lingering() -> None:
    operations.lingering(name="Let the user's units outlive the login")


@deploy("Service")
def service(wishes: Wishes) -> None:
    operations.sandboxed(name="Try the service's sandbox", wishes=wishes)
    operations.guarded(name="Install paddock-switch and its watchdog")
    operations.running(name="Run llama-server", wishes=wishes)
