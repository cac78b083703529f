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
    if sys.argv[1:2] == ["run"]:
        sys.exit(run(sys.argv[1:], command))
    sys.exit(_tidegate.main(["tidegate", *sys.argv[1:]], command))


def run(arguments: list[str], command: list[str]) -> int:
    """``tidegate run``, which may have a gunicorn.conf.py."""
    from tidegate import _gunicorn

    try:
        arguments, configuration = _gunicorn.take(arguments)
        if configuration is None:
            return _tidegate.main(["tidegate", *arguments], command)
        words, notes = configuration.options()
    except _gunicorn.ConfigurationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    supervisor = _gunicorn.Supervisor(configuration)
    serves = not {"--print-config", "--check-config"} & set(arguments)
    if serves:
        configuration.call("on_starting", supervisor)

    def on_exit(slot: int, process: int) -> None:
        worker = _gunicorn.EndedWorker(configuration, slot, process)
        configuration.call("child_exit", supervisor, worker)

    code = _tidegate.main(
        ["tidegate", *arguments],
        command,
        configured=(configuration.path, words),
        on_ready=lambda: configuration.call("when_ready", supervisor),
        on_exit=on_exit,
    )
    if serves:
        configuration.call("on_exit", supervisor)
    return code


if __name__ == "__main__":
    main()
