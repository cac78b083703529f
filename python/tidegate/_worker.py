"""A worker process: imports the application and runs it until the process ends.

Sockets are served by a thread of Rust that never waits for Python; requests arrive over a queue
(``Server.drain`` for ASGI, the threads of ``_tidegate`` for WSGI).
"""

import asyncio
import faulthandler
import importlib
import json
import logging
import logging.config
import os
import signal
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate import _errors, _gevent, _lifespan, _log, _metrics, _store, _tidegate, _wsgi
from tidegate._interface import is_asgi
from tidegate._log import logger

if TYPE_CHECKING:
    from tidegate import _gunicorn, _task_runner


#: Seconds in which background jobs may end although requests have taken all of the graceful time.
TASKS_END = 1.0


class StartupError(Exception):
    """The application cannot be run; the text is shown to the operator."""


class Preloaded:
    """What a worker gets from the preloader that it was forked from."""

    def __init__(
        self,
        application: object,
        configuration: "_gunicorn.Configuration | None",
        supervisor: int,
    ) -> None:
        self.application = application
        self.configuration = configuration
        self.supervisor = supervisor


def main(preloaded: Preloaded | None = None) -> int:
    """Runs this worker process and returns its exit code."""
    if '"gunicorn":"' in os.environ["TIDEGATE_WORKER"]:
        # Threads that are started from now on do not take the signal of the hook worker_abort.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGABRT})
    worker = _tidegate.worker()
    os.environ.pop("TIDEGATE_WORKER", None)
    # The supervisor handles SIGINT of a terminal and stops its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = json.loads(worker.settings)
    if name := settings.get("name"):
        _tidegate.set_title(f"tidegate: worker [{name}]")
    ended = True
    register_dump(worker)
    worker.set_own_metrics(_metrics.text)
    try:
        connect(worker.store, worker.name, settings)
        if preloaded is None:
            configure_logging(worker.log_format, worker.name, worker.slot, settings)
            if settings.get("threads") == "gevent":
                _gevent.install()
            configuration = gunicorn_configuration(settings)
            hooks = gunicorn_hooks(configuration, worker.slot, os.getppid())
            application = load(settings)
        else:
            _log.forked(worker.slot)
            if settings.get("threads") == "gevent":
                _gevent.forked()
                _gevent.install()
            application = preloaded.application
            hooks = gunicorn_hooks(preloaded.configuration, worker.slot, preloaded.supervisor)
        if hooks is not None:
            hooks.after_import()
        if serves_asgi(application, settings):
            run_asgi(worker, around(application, "asgi", settings), settings)
        else:
            if hooks is not None:
                application = hooks.around(application)
            ended = run_wsgi(worker, around(application, "wsgi", settings), settings)
        if hooks is not None:
            hooks.at_exit(worker.is_interrupted)
    except StartupError as error:
        worker.failed(str(error))
    except BaseException as error:
        logger.exception("the application ended with an error")
        worker.failed(f"{type(error).__name__}: {error}")
    code = worker.join()
    _log.finish()
    logging.shutdown()
    if not ended:
        # A thread that still runs Python cannot be stopped.
        os._exit(code)
    return code


def connect(store: str | None, app: str, settings: dict) -> None:
    """Sets where the application's cache, channels and background jobs are stored."""
    _store.connect(store)
    if url := settings.get("shared_store"):
        _store.use_redis(url, app)
    if url := settings.get("task_store"):
        from tidegate import _task_queue

        try:
            _task_queue.use(url, app)
        except ValueError as error:
            raise StartupError(f"the task store: {error}") from None


def gunicorn_configuration(settings: dict) -> "_gunicorn.Configuration | None":
    """Executes the gunicorn.conf.py of ``-c``."""
    if (path := settings.get("gunicorn")) is None:
        return None
    from tidegate import _gunicorn

    try:
        configuration = _gunicorn.Configuration(path)
        configuration.configure_logging()
    except _gunicorn.ConfigurationError as error:
        raise StartupError(str(error)) from None
    return configuration


def gunicorn_hooks(
    configuration: "_gunicorn.Configuration | None",
    slot: int,
    supervisor: int,
) -> "_gunicorn.Worker | None":
    """The hooks of a worker."""
    if configuration is None:
        return None
    from tidegate import _gunicorn

    hooks = _gunicorn.Worker(configuration, slot, supervisor)
    hooks.watch_abort()
    hooks.before_import()
    return hooks


def serves_asgi(application: object, settings: dict) -> bool:
    """True if an application is served by ASGI, false if by WSGI."""
    interface = settings.get("interface") or "auto"
    if interface != "asgi" and (interface != "auto" or not is_asgi(application)):
        return False
    if settings.get("threads") == "gevent":
        raise StartupError("--threads gevent is for WSGI: this application is ASGI")
    return True


def check(specification: str) -> int:
    """Imports the application of ``--check-config``; returns the exit code."""
    settings = json.loads(specification)
    try:
        connect(None, "main", settings)
        if settings.get("log_config"):
            configure_logging("text", "main", None, settings)
        gunicorn_configuration(settings)
        serves_asgi(load(settings), settings)
    except StartupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def configure_logging(style: str, app: str, slot: int | None, settings: dict) -> None:
    """Sends Python's logging to the server's own log, unless a configuration file is given."""
    if (path := settings.get("log_config")) is None:
        _log.configure(style, app, slot)
        return
    try:
        if path.endswith((".json", ".yaml", ".yml")):
            logging.config.dictConfig(read_settings(path))
        else:
            logging.config.fileConfig(path, disable_existing_loggers=False)
    except StartupError:
        raise
    except Exception as error:
        reason = f"{error}: {error.__cause__}" if error.__cause__ else error
        raise StartupError(f"the log configuration {path} is invalid: {reason}") from None


def read_settings(path: str) -> dict:
    """Reads a JSON or YAML file."""
    with open(path, encoding="utf-8") as file:
        if path.endswith(".json"):
            return json.load(file)
        try:
            import yaml
        except ImportError:
            raise StartupError(f"{path} is YAML, which needs PyYAML: pip install pyyaml") from None
        return yaml.safe_load(file)


def register_dump(worker: "_tidegate.Worker") -> None:
    """Lets the I/O thread dump the stacks of a stuck interpreter."""
    stacks = os.memfd_create("stacks")
    faulthandler.register(worker.dump_signal, file=stacks, all_threads=True)
    worker.set_stack_file(stacks)


def load(settings: dict) -> object:
    """Imports the application."""
    sys.path.insert(0, os.path.abspath(settings.get("app_dir") or "."))
    module_name, _, attributes = settings["target"].partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name + ".").startswith(error.name + "."):
            raise StartupError(f"there is no module {module_name!r} in {sys.path[0]}") from None
        logger.exception("%s cannot be imported", module_name)
        raise StartupError(f"importing {module_name!r} failed: {error}") from None
    except Exception as error:
        logger.exception("%s cannot be imported", module_name)
        kind = type(error).__name__
        raise StartupError(f"importing {module_name!r} failed: {kind}: {error}") from None
    application = module
    for name in attributes.split("."):
        try:
            application = getattr(application, name)
        except AttributeError:
            raise StartupError(f"{module_name!r} has no attribute {attributes!r}") from None
    if settings.get("factory"):
        try:
            application = application()
        except Exception as error:
            logger.exception("the factory %s failed", settings["target"])
            kind = type(error).__name__
            raise StartupError(f"the factory {attributes!r} failed: {kind}: {error}") from None
    _log.adopt_flask()
    if not callable(application):
        kind = type(application).__name__
        raise StartupError(
            f"{settings['target']!r} is not an application: a {kind} cannot be called"
        )
    return application


def around(application, interface: str, settings: dict):
    """The application within what watches its requests, if a setting asks for that."""
    if slow := settings.get("slow_ms"):
        from tidegate import _slow

        application = getattr(_slow.SlowRequests(slow / 1000), interface)(application)
    if token := settings.get("profile_token"):
        from tidegate import _profile

        application = getattr(_profile.Profiler(token), interface)(application)
    return application


def new_loop(kind: str) -> asyncio.AbstractEventLoop:
    """Creates the configured event loop."""
    if kind in ("auto", "uvloop"):
        try:
            import uvloop
        except ImportError:
            if kind == "uvloop":
                raise StartupError("uvloop is not installed: pip install uvloop") from None
        else:
            return uvloop.new_event_loop()
        logging.getLogger("tidegate").info(
            "the event loop is asyncio's, because uvloop is not installed: "
            "pip install 'tidegate[standard]' brings it")
    return asyncio.new_event_loop()


def run_asgi(
    worker: "_tidegate.Worker",
    application,
    settings: dict,
    loop: asyncio.AbstractEventLoop | None = None,
) -> None:
    """Runs an ASGI application until the process ends."""
    loop = loop or new_loop(settings.get("loop") or "auto")
    asyncio.set_event_loop(loop)
    lifespan = _lifespan.Lifespan(application, settings.get("lifespan") or "auto")
    try:
        loop.run_until_complete(lifespan.startup())
    except _lifespan.Failed as failed:
        raise StartupError(str(failed)) from None
    report = _errors.Reporter(worker, "ASGI")
    server = worker.asgi(
        application,
        loop,
        root_path=settings.get("root_path") or "",
        state=lifespan.state if lifespan.is_supported else None,
        report=report,
        on_stop=loop.stop,
    )
    loop.add_reader(server.fileno(), server.drain)
    loop.call_soon(server.warm_up)
    # After the first steps of the request loops, which an eager Task makes at once: requests would
    # find none of them idle.
    loop.call_soon(loop.call_soon, worker.ready)
    runner = start_tasks(settings, report, loop)
    try:
        loop.run_forever()
    finally:
        loop.remove_reader(server.fileno())
        # Requests that exceeded the graceful time-out. Other tasks belong to the application until
        # its shutdown is complete.
        loop.run_until_complete(cancel(filter(is_request, asyncio.all_tasks(loop))))
        loop.run_until_complete(loop.run_in_executor(None, stop_tasks, worker, runner))
        loop.run_until_complete(lifespan.shutdown())
        loop.run_until_complete(cancel(asyncio.all_tasks(loop)))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def start_tasks(
    settings: dict,
    report: _errors.Reporter,
    loop: asyncio.AbstractEventLoop | None = None,
) -> "_task_runner.Runner | None":
    """Starts the threads for background jobs, if the application has any."""
    if "tidegate.tasks" not in sys.modules:
        return None
    from tidegate import _task_runner

    return _task_runner.start(settings, report.record, loop)


def stop_tasks(worker: "_tidegate.Worker", runner: "_task_runner.Runner | None") -> None:
    """Lets background jobs finish in the time that is left."""
    if runner is not None:
        runner.stop(max(worker.drain_left, TASKS_END))


def is_request(task: asyncio.Task) -> bool:
    """True if the task runs requests or sessions: its coroutine is Tidegate's."""
    return type(task.get_coro()).__module__ == _tidegate.__name__


async def cancel(tasks: Iterable[asyncio.Task]) -> None:
    """Cancels tasks and waits until they have ended."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def run_wsgi(worker: "_tidegate.Worker", application, settings: dict) -> bool:
    """Runs a WSGI application until the process ends; returns whether all its threads ended."""
    # gunicorn has no option for it, and reads this variable.
    mounted_at = settings.get("root_path") or os.environ.get("SCRIPT_NAME", "")
    settings = {**settings, "root_path": mounted_at}
    report = _errors.Reporter(worker, "WSGI")
    if settings.get("threads") == "gevent":
        runner = start_tasks(settings, report)
        try:
            return _gevent.run(worker, application, settings, report)
        finally:
            stop_tasks(worker, runner)
    server = worker.wsgi(
        application,
        root_path=mounted_at,
        threads=settings.get("threads") or 0,
        multiprocess=(settings.get("processes") or 1) > 1,
        errors=_wsgi.Errors(),
        report=report,
        complain=_wsgi.complain,
    )
    worker.ready()
    runner = start_tasks(settings, report)
    try:
        return server.run()
    finally:
        stop_tasks(worker, runner)
