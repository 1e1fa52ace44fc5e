"""What needs to see all roles: the start of a run, the preflight and the verdict, how it ended, the fleet's status."""

from roles.overview.operations import checked, collected, ended
from roles.overview.pins import update_pins
from roles.overview.preflight import preflight
from roles.overview.start import FRAGMENTS, begin
from roles.overview.status import status

__all__ = ["FRAGMENTS", "begin", "checked", "collected", "ended", "preflight", "status", "update_pins"]
