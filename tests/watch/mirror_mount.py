"""A FUSE file system that shows the file config.json of another directory: ``mirror_mount.py BEHIND MOUNT_POINT``.

A change behind it is read through it, and gives no event. At SIGUSR1 it stops answering, as a server does that is
gone; at SIGUSR2 it goes on. It uses the kernel's own protocol, so that it needs no library.
"""

from __future__ import annotations

import ctypes
import errno
import os
import pathlib
import select
import signal
import struct
import sys

NAME = b"config.json"
ROOT, FILE = 1, 2
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT = 1, 2, 3, 14, 15, 17, 18, 25, 26
OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = 27, 28, 29, 36, 42
WITHOUT_ANSWER = (FORGET, INTERRUPT, BATCH_FORGET)
REQUEST_BYTES_MAX = 1 << 18
MS_NOSUID_NODEV = 6


def attributes(about: os.stat_result, node: int) -> bytes:
    times = (about.st_atime_ns, about.st_mtime_ns, about.st_ctime_ns)
    seconds, parts = [t // 10**9 for t in times], [t % 10**9 for t in times]
    numbers = (about.st_mode, about.st_nlink, about.st_uid, about.st_gid, 0, 4096, 0)
    return struct.pack("<6Q10I", node, about.st_size, about.st_blocks, *seconds, *parts, *numbers)


def answer(behind: pathlib.Path, opcode: int, node: int, body: bytes) -> bytes:
    """Return the body of the answer; nothing is to be remembered, so that every look comes here."""
    path = behind if node == ROOT else behind / os.fsdecode(NAME)
    if opcode == INIT:
        return struct.pack("<4I2H2I2H8I", 7, 31, 1 << 16, 0, 16, 12, 1 << 16, 1, 0, 0, *[0] * 8)
    if opcode == LOOKUP:
        if body.rstrip(b"\0") != NAME:
            raise FileNotFoundError(errno.ENOENT, "no such name")
        return struct.pack("<4Q2I", FILE, 1, 0, 0, 0, 0) + attributes((behind / os.fsdecode(NAME)).stat(), FILE)
    if opcode == GETATTR:
        return struct.pack("<Q2I", 0, 0, 0) + attributes(path.stat(), node)
    if opcode in (OPEN, OPENDIR):
        return struct.pack("<Q2I", 0, 0, 0)
    if opcode == READ:
        _, offset, size = struct.unpack_from("<2QI", body)
        return path.read_bytes()[offset : offset + size]
    if opcode == STATFS:
        return struct.pack("<5Q4I24x", 1, 0, 0, 1, 0, 4096, 255, 4096, 0)
    if opcode in (READDIR, RELEASE, RELEASEDIR, FLUSH):
        return b""
    raise OSError(errno.ENOSYS, "not needed")


def serve(device: int, behind: pathlib.Path, is_silent: list[bool]) -> None:
    while True:
        if is_silent:
            signal.sigtimedwait([], 0.01)
            continue
        if not select.select([device], [], [], 0.05)[0]:
            continue
        request = os.read(device, REQUEST_BYTES_MAX)
        _, opcode, unique, node = struct.unpack_from("<2I2Q", request)
        if opcode in WITHOUT_ANSWER:
            continue
        try:
            error, body = 0, answer(behind, opcode, node, request[40:])
        except OSError as failure:
            error, body = -failure.errno, b""
        os.write(device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)


def main() -> None:
    behind, mount_point = map(pathlib.Path, sys.argv[1:])
    is_silent: list[bool] = []
    signal.signal(signal.SIGUSR1, lambda *_: is_silent.append(True))
    signal.signal(signal.SIGUSR2, lambda *_: is_silent.clear())
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"mirror", os.fsencode(mount_point), b"fuse", MS_NOSUID_NODEV, options) != 0:
        raise OSError(ctypes.get_errno(), "cannot mount")
    serve(device, behind, is_silent)


if __name__ == "__main__":
    main()
