"""What is served under overload: a handler that notes in a file whose delivery it got."""

import os

import duly

app = duly.App()
FILE = os.open(os.environ["NOTED"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


@app.handler("noop")
async def noop(delivery: duly.Delivery[object]) -> None:
    """Note it."""
    os.write(FILE, f"{delivery.id}\n".encode())
