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
    if "TIDEGATE_PRELOAD" in os.environ:
        from tidegate import _preload

        sys.exit(_preload.main())
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
    from tidegate import _gunicorn, _log

    try:
        arguments, configuration = _gunicorn.take(arguments)
        arguments, directory = _gunicorn.take_directory(arguments, configuration)
        words, notes = configuration.options(arguments) if configuration else ([], [])
    except _gunicorn.ConfigurationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if directory is not None:
        os.chdir(directory)
    if configuration is None:
        return _tidegate.main(["tidegate", *arguments], command)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    supervisor = _gunicorn.Supervisor(configuration)
    serves = not {"--print-config", "--check-config"} & set(arguments)
    if serves:
        is_json = "--log-format=json" in "=".join(arguments)
        _log.configure_supervisor("json" if is_json else "text")
        configuration.call("on_starting", supervisor)

    def on_event(kind: str, first: int, second: int | None) -> None:
        match kind:
            case "starting":
                worker = _gunicorn.WorkerProcess(configuration, first, "[booting]")
                configuration.call("pre_fork", supervisor, worker)
            case "ended":
                worker = _gunicorn.WorkerProcess(configuration, first, second)
                configuration.call("child_exit", supervisor, worker)
            case "workers":
                # It may be that of the command line, or have changed.
                supervisor.num_workers = first
                configuration.call("nworkers_changed", supervisor, first, second)
            case "reloading":
                configuration.call("on_reload", supervisor)

    code = _tidegate.main(
        ["tidegate", *arguments],
        command,
        configured=(configuration.path, words),
        on_ready=lambda: configuration.call("when_ready", supervisor),
        on_event=on_event,
        aborts_first=configuration.has("worker_abort"),
    )
    if serves:
        configuration.call("on_exit", supervisor)
    return code


if __name__ == "__main__":
    main()
