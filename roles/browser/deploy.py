"""The browser role: VRAM back from the browsers' local AI models."""

from pyinfra.api import deploy

from roles.browser import operations
from roles.settings import Browser


@deploy("Browser")
def browser(wanted: Browser) -> None:
    operations.policy_set(name="Keep the browser's local AI model away", wanted=wanted)
