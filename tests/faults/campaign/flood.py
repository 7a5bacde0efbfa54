#!/usr/bin/env python3
"""Floods every TCP port of this network namespace, and every abstract Unix socket of Tutti, with connections that lack
the secret. Some stay idle, some begin a handshake and stop, some send data.

    flood.py SECONDS SEED

It keeps more connections open than a port's queue holds. Prints how many it made. Exit status: 1 if no port
listened."""

import collections
import os
import random
import resource
import socket
import sys
import time

# A port's queue holds at most 4096 connections (net.core.somaxconn).
OPEN_AT_A_TIME = 4500
LISTENING = "0A"
# The start of a client's hello. The rest (purpose, ranks, key share) is random.
MAGIC = b"tuttiHS\x02"
HELLO_BYTES = 53
TOGETHER = 64
LOOK_AGAIN_SECONDS = 0.5


def tcp_ports():
    """Yields all listening ports. /proc/net has addresses as 32-bit words in this machine's byte order."""
    for family, path in (socket.AF_INET, "/proc/net/tcp"), (socket.AF_INET6, "/proc/net/tcp6"):
        for line in open(path):
            fields = line.split()
            if len(fields) > 3 and fields[3] == LISTENING:
                address, port = fields[1].split(":")
                words = (address[at : at + 8] for at in range(0, len(address), 8))
                packed = b"".join(int(word, 16).to_bytes(4, sys.byteorder) for word in words)
                yield family, (socket.inet_ntop(family, packed), int(port, 16))


def unix_sockets():
    names = {line.split()[-1] for line in open("/proc/net/unix") if "@tutti" in line}
    for name in sorted(names):
        yield socket.AF_UNIX, "\0" + name[1:]


def begin(family, address):
    """A connection in progress, or None if the port takes no more."""
    one = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        one.connect(address)
    except BlockingIOError:
        if family == socket.AF_UNIX:
            one.close()
            return None
    except OSError:
        one.close()
        return None
    return one


def talk(one, rng):
    hello = MAGIC + bytes([rng.randint(0, 5)]) + rng.randbytes(HELLO_BYTES - len(MAGIC) - 1)
    said = rng.choice([b"", b"", hello[: rng.randint(1, HELLO_BYTES - 1)], hello, hello + rng.randbytes(40), rng.randbytes(200)])
    try:
        if said:
            one.send(said)
    except OSError:
        pass  # not connected yet, or already closed by the peer


def main():
    seconds, rng = float(sys.argv[1]), random.Random(sys.argv[2])
    wanted = 1 << 16
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    places, made, end, look = [], 0, time.monotonic() + seconds, 0.0
    kept = collections.deque()
    while time.monotonic() < end:
        if time.monotonic() >= look:
            look = time.monotonic() + LOOK_AGAIN_SECONDS
            places = [*tcp_ports(), *unix_sockets()]
        most = max(1, min(OPEN_AT_A_TIME * len(places), min(wanted, hard) - 100))
        for family, address in rng.sample(places, len(places)):
            fresh = [one for one in (begin(family, address) for _ in range(TOGETHER)) if one]
            for one in fresh:
                talk(one, rng)
            made += len(fresh)
            kept.extend(fresh)
        while len(kept) > most:
            kept.popleft().close()
        if not places:
            time.sleep(0.01)
    print(f"{made} connections in {seconds:.1f} s, {len(kept)} of them open at the end")
    return 0 if made else 1


if __name__ == "__main__":
    sys.exit(main())
