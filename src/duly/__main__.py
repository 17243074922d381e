"""`python -m duly` is `duly`."""

from duly.surfaces.cli.main import main

main()
