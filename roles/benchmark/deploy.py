"""The benchmark role: the seed's table for what this host serves."""

from pyinfra.api import deploy

from roles.benchmark import operations
from roles.wishes import Wishes


@deploy("Benchmark")
def benchmark(wishes: Wishes) -> None:
    operations.measured(name="Measure what is served", wishes=wishes)
    operations.alternated(name="Measure old and new in turns", wishes=wishes)
    operations.judged(name="Judge the figures", wishes=wishes)


def in_full(wishes: Wishes) -> None:
    """The work of `roles.benchmark.full`: all of the table, whatever was measured before."""
    operations.measured_in_full(name="Measure the whole table", wishes=wishes)
    operations.judged(name="Judge the figures", wishes=wishes)
