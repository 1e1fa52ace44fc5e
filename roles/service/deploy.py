"""The service role: llama-server as a capped user unit that starts at boot."""

from pyinfra.api import deploy

from roles.service import operations
from roles.wishes import Wishes


@deploy("Service")
def lingering(wishes: Wishes) -> None:
    operations.lingering(name="Let the user's units outlive the login")
    operations.placed(name="Put releases and models in their place", wishes=wishes)


@deploy("Service")
def service(wishes: Wishes) -> None:
    operations.brought_home(name="Bring releases and models home", wishes=wishes)
    operations.sandboxed(name="Try the service's sandbox", wishes=wishes)
    operations.guarded(name="Install paddock-switch and its watchdog", wishes=wishes)
    operations.running(name="Run llama-server", wishes=wishes)
