"""Instructions in user space that a server executes for a request, counted by callgrind: the same
on a busy machine. All of its threads count."""

import os
import re
import subprocess

import load
import processes
from processes import directory

WARM = 500
# Under valgrind a start takes some seconds.
processes.START_SECONDS = 120.0


def of_request(start, path, body, requests, fields="", without=None):
    """What a request costs a server that `start` starts with a profiler; `without` is a part of the
    names of functions that do not count."""
    out = os.path.join(directory(), "callgrind.out")
    server = start(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"])
    load.probe(server, path, body, WARM, fields)
    control("--zero", server.process.pid)
    load.probe(server, path, body, requests, fields)
    control("--dump", server.process.pid)
    server.stop()
    instructions = total(f"{out}.1", without)
    os.remove(f"{out}.1")
    return instructions / requests


def total(path, without=None):
    """The instructions of a profile in callgrind's format; see `of_request`."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return sum(cost for name, cost in _costs(file) if not without or without not in name)


def _costs(file):
    """Functions and what they cost themselves, of a profile in callgrind's format."""
    names, function, is_call = {}, "", False
    for line in file:
        named = re.match(r"c?fn=(\(\d+\))(?: (.*))?", line)
        if named:
            if named[2]:
                names[named[1]] = named[2]
            if line.startswith("fn="):
                function = names[named[1]]
        elif line.startswith("calls="):
            is_call = True  # the next line is the cost of the function that is called
        elif re.match(r"[+*\d-]", line):
            if not is_call:
                yield function, int(line.split()[1])
            is_call = False


def control(command, process):
    """Zeros the counters of a process, or writes its profile."""
    subprocess.run(
        ["callgrind_control", command, str(process)],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=directory(),
    )
