"""Stays with one container for as long as it lives; the runtime may come and go.

Started as a program of its own, by its path, with a bare interpreter: one of these runs
for every container, so it imports next to nothing. It owns the container's input and
output, writes the log in the form that a kubelet reads, lets others attach, and notes how
the container ended.

    python -I -S -E monitor.py FOLDER LOG FLAGS COMMAND...

FOLDER is the container's, with these files of ours:
    control   a socket; see `Monitor._obey`
    pid       written by the command (runc), or by us: the container's first process
    started   {"pid": …, "ticks": …, "monitor": …, "monitor_ticks": …, "at": nanoseconds}
    exit      {"code": …, "at": nanoseconds}, there once the container has ended

FLAGS, joined by commas: tty, stdin, stdin_once, and direct (COMMAND is the container
itself rather than a program that makes it and goes). The first line on standard output
is "ok" or "failed CODE".
"""

from __future__ import annotations

# The C modules behind `socket` and `signal`: those two import enum, re and more, which
# would cost every container a megabyte.
import _socket
import ctypes
import os
import select
import sys
import time

CHUNK_BYTES = 16384
"""Longest piece of a line in one log record."""

STUCK_MS = 5000
"""An attached client that does not read for so long is let go, in milliseconds."""


SIGPIPE = 13
SIG_DFL = 0
PR_SET_CHILD_SUBREAPER = 36
TIOCSWINSZ = 0x5414
RIGHTS = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS)


def stamp(nanoseconds: int) -> str:
    """A time as RFC 3339 with nanoseconds, in UTC."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09d}Z"


def records(stream: str, data: bytes, at: str) -> bytes:
    """Output as log records: a whole line is F(ull), what has no line end yet is P(artial)."""
    lines = data.split(b"\n")
    last = lines.pop()
    head = f"{at} {stream} ".encode()
    text = b"".join([head + b"F " + line + b"\n" for line in lines])
    return text + head + b"P " + last + b"\n" if last else text


def ticks(pid: int) -> int:
    """When a process started, in clock ticks since the boot; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - no pathlib in here
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def note(name: str, text: str) -> None:
    """Write a small file at once or not at all."""
    handle = os.open(f"{name}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)
    os.replace(f"{name}.new", name)  # noqa: PTH105


class Log:
    """The log file; a full disk loses lines, never the container."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = -1
        self.reopen()

    def reopen(self) -> None:
        """Go on in a new file, after the old one was renamed."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
        if self._path:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            try:
                self._file = os.open(self._path, flags, 0o640)
            except OSError:
                return

    def write(self, stream: str, data: bytes) -> None:
        """Append output of one of the container's streams."""
        if self._file < 0:
            return
        try:
            os.write(self._file, records(stream, data, stamp(time.time_ns())))
        except OSError:
            return


class Client:
    """Somebody attached: where the input comes from and the output goes to."""

    def __init__(self, stdin: int, outputs: dict[str, int]) -> None:
        self.stdin = stdin
        self.outputs = outputs

    def close(self) -> None:
        """Let go of everything."""
        for handle in {self.stdin, *self.outputs.values()} - {-1}:
            os.close(handle)
        self.stdin, self.outputs = -1, {}


class Monitor:
    """One container: its streams, its clients and its end."""

    def __init__(self, log: str, flags: set[str]) -> None:
        self._flags = flags
        self._log = Log(log)
        self._poll = select.poll()
        self._streams: dict[int, str] = {}
        self._clients: list[Client] = []
        self._input = -1
        self._pending = b""
        self._terminal = -1
        self._console: _socket.socket | None = None
        self._control = _listen("control")
        self.pid = 0

    # Starting

    def start(self, command: list[str]) -> int:
        """Start the container; gives the exit code of what failed, or 0."""
        theirs = self._terminal_pair() if "tty" in self._flags else self._pipes()
        child = os.fork()
        if child == 0:
            _become(command, theirs, own_terminal="tty" in self._flags and "direct" in self._flags)
        for handle in set(theirs) - {-1}:
            os.close(handle)
        if "direct" in self._flags:
            self.pid = child
            note("pid", str(child))
        else:
            if self._console is not None and not self._take_terminal(child):
                return 1
            code = _exit_code(os.waitpid(child, 0)[1])
            if code != 0:
                self._drain()
                return code
            with open("pid", encoding="ascii") as file:  # noqa: PTH123
                self.pid = int(file.read())
        me = os.getpid()
        note(
            "started",
            f'{{"pid": {self.pid}, "ticks": {ticks(self.pid)}, "monitor": {me},'
            f' "monitor_ticks": {ticks(me)}, "at": {time.time_ns()}}}',
        )
        return 0

    def _pipes(self) -> tuple[int, int, int]:
        stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        if "stdin" in self._flags:
            os.close(stdin)
            stdin, self._input = os.pipe()
            os.set_blocking(self._input, False)
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        self._follow(out, "stdout")
        self._follow(err, "stderr")
        return stdin, out_end, err_end

    def _terminal_pair(self) -> tuple[int, int, int]:
        if "direct" in self._flags:
            master, slave = os.openpty()
            self._use_terminal(master)
            return slave, slave, slave
        # runc makes the terminal inside the container and sends us its master side.
        self._console = _listen("console")
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        out, out_end = os.pipe()
        self._follow(out, "stderr")
        return null, out_end, out_end

    def _take_terminal(self, child: int) -> bool:
        assert self._console is not None
        wait = select.poll()
        wait.register(self._console.fileno(), select.POLLIN)
        watch = os.pidfd_open(child)
        wait.register(watch, select.POLLIN)
        ready = [handle for handle, _ in wait.poll()]
        os.close(watch)
        if self._console.fileno() not in ready:
            self._drain()
            return False
        peer = _accept(self._console)
        _, handles = _receive(peer)
        peer.close()
        self._console.close()
        self._console = None
        self._use_terminal(handles[0])
        return True

    def _use_terminal(self, master: int) -> None:
        self._terminal = master
        self._input = master
        self._follow(master, "stdout")

    def _follow(self, handle: int, stream: str) -> None:
        os.set_blocking(handle, False)
        self._streams[handle] = stream
        self._poll.register(handle, select.POLLIN)

    # Living

    def run(self) -> None:
        """Serve until the container has ended, then write down how."""
        watch = os.pidfd_open(self.pid)
        self._poll.register(watch, select.POLLIN)
        self._poll.register(self._control.fileno(), select.POLLIN)
        alive = True
        while alive:
            for handle, _ in self._poll.poll():
                if handle in self._streams:
                    self._read(handle)
                    if handle == self._input and self._pending:
                        self._feed(b"")
                elif handle == self._control.fileno():
                    self._obey(_accept(self._control))
                elif handle == watch:
                    alive = False
                elif handle == self._input:
                    self._feed(b"")
                else:
                    self._read_input(handle)
        status = os.waitpid(self.pid, 0)[1]
        self._drain()
        note("exit", f'{{"code": {_exit_code(status)}, "at": {time.time_ns()}}}')
        for client in self._clients:
            client.close()
        _end_strays()

    def _read(self, handle: int) -> bool:
        try:
            data = os.read(handle, CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:  # a terminal whose other side is closed
            data = b""
        if not data:
            self._poll.unregister(handle)
            if handle != self._terminal:  # which is for input too
                os.close(handle)
            del self._streams[handle]
            return False
        stream = self._streams[handle]
        self._log.write(stream, data)
        for client in list(self._clients):
            target = client.outputs.get("stdout" if self._terminal >= 0 else stream, -1)
            if target >= 0 and not _write_all(target, data):
                self._drop(client)
        return True

    def _drain(self) -> None:
        for handle in list(self._streams):
            while handle in self._streams and self._read(handle):
                pass

    def _obey(self, peer: _socket.socket) -> None:
        """One request and an answer: reopen | resize ROWS COLS | attach STREAMS, with handles.

        STREAMS are names joined by commas, in the order of the handles that come along.
        """
        message, handles = _receive(peer)
        word, *rest = message.decode(errors="replace").split() or [""]
        answer = b"ok"
        if word == "reopen":
            self._log.reopen()
        elif word == "resize" and self._terminal >= 0:
            self._resize(int(rest[0]), int(rest[1]))
        elif word == "attach":
            self._attach(dict(zip(rest[0].split(","), handles, strict=False)))
        else:
            answer = b"what?"
        try:  # noqa: SIM105 - contextlib would cost every container its memory
            peer.send(answer)
        except OSError:
            pass  # it has gone; nothing depends on its hearing this
        peer.close()

    def _resize(self, rows: int, cols: int) -> None:
        import fcntl

        size = b"".join(n.to_bytes(2, sys.byteorder) for n in (rows, cols, 0, 0))
        fcntl.ioctl(self._terminal, TIOCSWINSZ, size)

    def _attach(self, handles: dict[str, int]) -> None:
        stdin = handles.pop("stdin", -1)
        for handle in handles.values():
            os.set_blocking(handle, False)
        client = Client(stdin, handles)
        self._clients.append(client)
        if stdin >= 0 and self._input >= 0:
            os.set_blocking(stdin, False)
            self._poll.register(stdin, select.POLLIN)

    def _read_input(self, handle: int) -> None:
        client = next(client for client in self._clients if client.stdin == handle)
        try:
            data = os.read(handle, CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._feed(data)
            return
        self._poll.unregister(handle)
        os.close(handle)
        client.stdin = -1
        if client.outputs.get("stdout") is None or _peer_is_gone(client):
            self._drop(client)
        if "stdin_once" in self._flags and self._terminal < 0:
            self._end_input()

    def _feed(self, data: bytes) -> None:
        """Pass input on; while the container does not read, nobody is listened to."""
        self._pending += data
        try:
            while self._pending:
                self._pending = self._pending[os.write(self._input, self._pending) :]
        except BlockingIOError:
            pass
        except OSError:
            self._pending = b""
            self._end_input()
            return
        self._listen_to_clients(not self._pending)

    def _listen_to_clients(self, yes: bool) -> None:
        if self._input >= 0:
            wanted = 0 if yes else select.POLLOUT
            if self._input == self._terminal:
                if self._input in self._streams:
                    self._poll.register(self._input, select.POLLIN | wanted)
            elif wanted:
                self._poll.register(self._input, wanted)
            else:
                _forget(self._poll, self._input)
        for client in self._clients:
            if client.stdin >= 0:
                self._poll.register(client.stdin, select.POLLIN if yes else 0)

    def _end_input(self) -> None:
        if self._input >= 0 and self._input != self._terminal:
            _forget(self._poll, self._input)
            os.close(self._input)
            self._input = -1
            for client in self._clients:
                if client.stdin >= 0:
                    _forget(self._poll, client.stdin)

    def _drop(self, client: Client) -> None:
        if client.stdin >= 0:
            _forget(self._poll, client.stdin)
        client.close()
        self._clients.remove(client)


def _become(command: list[str], streams: tuple[int, int, int], *, own_terminal: bool) -> None:
    """Turn into the command; called in the child."""
    try:
        os.setsid()
        for target, handle in enumerate(streams):
            os.dup2(handle, target)
        if own_terminal:
            import fcntl
            import termios

            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        ctypes.CDLL(None).signal(SIGPIPE, SIG_DFL)
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(127)


def _listen(name: str) -> _socket.socket:
    # By a name in the working folder: a socket's address has room for 107 bytes only.
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    listener.bind(name)
    listener.listen(8)
    return listener


def _accept(listener: _socket.socket) -> _socket.socket:
    handle, _ = listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, handle)


def _receive(peer: _socket.socket) -> tuple[bytes, list[int]]:
    message, extras, _, _ = peer.recvmsg(4096, _socket.CMSG_SPACE(64))
    handles: list[int] = []
    for level, kind, data in extras:
        if (level, kind) == RIGHTS:
            pieces = [data[at : at + 4] for at in range(0, len(data) - len(data) % 4, 4)]
            handles += [int.from_bytes(piece, sys.byteorder) for piece in pieces]
    for handle in handles:
        os.set_inheritable(handle, False)
    return message, handles


def _write_all(handle: int, data: bytes) -> bool:
    """Write to a client; it slows the container down, but cannot stop it."""
    wait = select.poll()
    wait.register(handle, select.POLLOUT)
    while data:
        try:
            data = data[os.write(handle, data) :]
        except BlockingIOError:
            if not wait.poll(STUCK_MS):
                return False
        except OSError:
            return False
    return True


def _peer_is_gone(client: Client) -> bool:
    wait = select.poll()
    for handle in client.outputs.values():
        wait.register(handle, 0)
    return any(event & select.POLLERR for _, event in wait.poll(0))


def _forget(poll: select.poll, handle: int) -> None:
    try:
        poll.unregister(handle)
    except KeyError:
        return


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _end_strays() -> None:
    """Kill what the container has left behind where it had no pid namespace of its own."""
    me = os.getpid()
    while True:
        try:
            with open(f"/proc/{me}/task/{me}/children", encoding="ascii") as file:  # noqa: PTH123
                children = [int(word) for word in file.read().split()]
        except OSError:
            return
        if not children:
            return
        for child in children:
            try:
                os.kill(child, 9)
            except OSError:
                continue
        for child in children:
            try:
                os.waitpid(child, 0)
            except OSError:
                continue


def main() -> int:
    """Run one container from start to end."""
    folder, log, flags, *command = sys.argv[1:]
    os.chdir(folder)
    os.setsid()
    # Orphans of the container, and the container itself once runc has gone, become ours.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    monitor = Monitor(log, set(flags.split(",")))
    code = monitor.start(command)
    os.write(1, b"ok\n" if code == 0 else f"failed {code}\n".encode())
    null = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):
        os.dup2(null, handle)
    os.close(null)
    if code == 0:
        monitor.run()
    return code


if __name__ == "__main__":
    sys.exit(main())
