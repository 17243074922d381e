"""The handlers and schedules of this project; `duly serve app:app` runs them."""

import duly

app = duly.App()  # the data is in duly.db, or where DULY_DATABASE says


# A handler is a function with typed parameters. If it raises, duly calls it again.
# Deliver to it in Python with `await greet.using(after=60).deliver("Ada")`.
@app.handler(retry=duly.exponential(base=5, attempts=10), timeout=60)
async def greet(name: str) -> str:
    return f"Hello, {name}!"  # the result is kept with the delivery


# A schedule makes a delivery each time it is due. For Mondays at nine in Oslo, write
# duly.cron("0 9 * * MON", tz="Europe/Oslo").
@app.schedule(duly.every("10s"))
@app.handler
async def tick(delivery: duly.Delivery) -> None:
    print("tick, due at", delivery.due_at)
