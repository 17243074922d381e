"""The app of the overload benchmark: a handler that writes the id of each delivery to a file."""

import os

import duly

app = duly.App()
FILE = os.open(os.environ["HANDLED_FILE"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


@app.handler("noop")
async def noop(delivery: duly.Delivery[object]) -> None:
    """Write the id."""
    os.write(FILE, f"{delivery.id}\n".encode())
