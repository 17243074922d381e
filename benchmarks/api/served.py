"""The app that `duly serve` serves in these benchmarks: a handler that does nothing."""

import duly

app = duly.App()


@app.handler("noop")
async def noop(delivery: duly.Delivery[object]) -> None:
    """Do nothing."""
