"""The command `tidegate`, also as `python -m tidegate`."""

import os
import signal
import subprocess
import sys

from tidegate import _tidegate


def main() -> None:
    if "TIDEGATE_WORKER" in os.environ:
        from tidegate import _worker

        sys.exit(_worker.main())
    # Python's own handler only notes that there was a signal, for code that is not running here.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Worker processes run with our options (-O, -X …), and find modules where they are told to
    # (-P), not where we happen to have been started.
    options = subprocess._args_from_interpreter_flags()
    command = [sys.executable, *options, "-P", "-m", "tidegate"]
    sys.exit(_tidegate.main(["tidegate", *sys.argv[1:]], command))


if __name__ == "__main__":
    main()
