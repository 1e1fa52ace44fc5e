"""pyinfra reads this before the inventory: from here on a run has an honest end, whatever happens to it."""

from pyinfra.context import ctx_state

from roles import trouble

trouble.watch(ctx_state.get())  # type: ignore[no-untyped-call]
