"""`duly completion`: the completion script of a shell."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from duly.surfaces.cli.terminal.output import answer

Shell = Annotated[Literal["bash", "zsh", "fish"], Parameter(help="bash, zsh or fish.")]


def completion(shell: Shell, /) -> None:
    """Print the script that completes commands and flags in a shell.

    Put it where the shell looks:

    bash: duly completion bash > ~/.local/share/bash-completion/completions/duly

    zsh: duly completion zsh > "${fpath[1]}/_duly"

    fish: duly completion fish > ~/.config/fish/completions/duly.fish
    """
    # Imported here: the command line imports this file.
    from duly.surfaces.cli.command_line import command_line

    whole = command_line(overview=True)
    answer(False, None, lambda: whole.generate_completion(prog_name="duly", shell=shell).rstrip())
