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
    if "TIDEGATE_CHECK" in os.environ:
        from tidegate import _worker

        sys.exit(_worker.check(os.environ.pop("TIDEGATE_CHECK")))
    # Python's own handler only sets a flag for Python code, which does not run here.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Worker processes run with the same options (-O, -X …), and import from the configured
    # directory (-P), not from the current one.
    options = subprocess._args_from_interpreter_flags()
    command = [sys.executable, *options, "-P", "-m", "tidegate"]
    sys.exit(_tidegate.main(["tidegate", *sys.argv[1:]], command))


if __name__ == "__main__":
    main()
