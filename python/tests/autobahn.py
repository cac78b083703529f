"""Runs the fuzzing client of the Autobahn testsuite against an echo over Tidegate's WebSockets,
with compression.

    python autobahn.py WSTEST DIRECTORY SECONDS [CASES …]         such as: 7.* 13.*

Prints each case that fails, and ends with 1 if there is one, or if it takes longer than so many
seconds. Without cases it runs all.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from hosting import serve

#: What the testsuite calls passed.
PASSED = ("OK", "NON-STRICT", "INFORMATIONAL", "UNIMPLEMENTED")


async def app(scope, receive, send):
    if scope["type"] != "websocket":
        raise RuntimeError("WebSocket only")
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        kind = "text" if message.get("text") is not None else "bytes"
        await send({"type": "websocket.send", kind: message[kind]})


def main(wstest, directory, seconds, *cases):
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    with serve("autobahn:app", ws_max_size="32MiB") as server:
        server.ready()
        specification = directory / "fuzzingclient.json"
        specification.write_text(json.dumps({
            "outdir": str(directory / "reports"), "cases": list(cases) or ["*"],
            "exclude-cases": [], "exclude-agent-cases": {},
            "servers": [{"agent": "tidegate", "url": f"ws://127.0.0.1:{server.port}"}],
        }))
        try:
            subprocess.run([wstest, "-m", "fuzzingclient", "-s", str(specification)], check=True,
                           stdout=subprocess.DEVNULL, timeout=float(seconds))
        except subprocess.TimeoutExpired:
            print(f"the testsuite took more than {seconds} s and was ended")
            return 1
    results = json.loads((directory / "reports" / "index.json").read_text())["tidegate"]
    failed = {case: result for case, result in results.items()
              if result["behavior"] not in PASSED or result["behaviorClose"] not in PASSED}
    for case, result in failed.items():
        print(f"{case}: {result['behavior']}, close {result['behaviorClose']}")
    print(len(results), "cases:", dict(Counter(one["behavior"] for one in results.values())))
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
