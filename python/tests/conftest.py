"""One server for each test file, unless a test starts its own."""

import pytest

from admin import Admin
from hosting import KIND, Server, serve

pytest.register_assert_rewrite("stored_tasks")


def pytest_configure(config):
    config.addinivalue_line("markers", "fails_on(*servers): known to fail on these servers")


def pytest_collection_modifyitems(items):
    for item in items:
        for mark in item.iter_markers("fails_on"):
            if KIND in mark.args:
                item.add_marker(pytest.mark.xfail(reason=f"{KIND} does not support that"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds the logs of the servers to the report of a failed test."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            for running in getattr(value, "started", [value]):
                if isinstance(running, Server):
                    lines = running.log().splitlines()[-60:]
                    report.sections.append((f"log of {name}", "\n".join(lines)))


@pytest.fixture(scope="module")
def server(request):
    """The server of a test file: serves the file's `app` with its OPTIONS."""
    module = request.module
    options = getattr(module, "OPTIONS", {})
    interface = getattr(module, "INTERFACE", "asgi")
    with serve(f"{module.__name__}:app", interface, **options) as running:
        yield running.ready()


#: How an application runs: its interface and the options. A test file has an application for each
#: interface: `app` and `wsgi`.
MODES = {
    "asgi": ("asgi", {}),
    "threads": ("wsgi", {}),
    "gevent": ("wsgi", {"threads": "gevent"}),
    "preload": ("asgi", {"preload": True}),
    "preload-gevent": ("wsgi", {"preload": True, "threads": "gevent"}),
}


@pytest.fixture(params=MODES, scope="module")
def mode(request):
    """Each of the modes in which applications run."""
    if "threads" in MODES[request.param][1]:
        pytest.importorskip("gevent")
    return request.param


@pytest.fixture
def start_mode(mode, request, start_server):
    """Starts servers of the test file's application in this mode."""
    return lambda **more: start_in(mode, request.module, start_server, **more)


def start_in(mode, module, start, **more):
    """Starts a server of a test file's application in this mode."""
    interface, options = MODES[mode]
    target = f"{module.__name__}:{'app' if interface == 'asgi' else 'wsgi'}"
    return start(target, interface, **options, **more)


@pytest.fixture(scope="module")
def administered(mode, request, tmp_path_factory):
    """A server of a test file in each mode, and its admin API."""
    # In a gateway the directory of the server is set.
    directory = tmp_path_factory.mktemp("runtime")
    environment = {"XDG_RUNTIME_DIR": str(directory)}
    with start_in(mode, request.module, serve, environment=environment) as running:
        yield running.ready(), Admin(running, directory)


@pytest.fixture
def start_server():
    """Starts servers that end with the test."""
    started = []

    def start(target, interface="asgi", ready=True, **options):
        running = serve(target, interface, **options)
        started.append(running)
        return running.ready() if ready else running

    start.started = started
    yield start
    for running in started:
        running.stop()


@pytest.fixture
def write(tmp_path):
    """Writes a gunicorn.conf.py; returns its path."""
    def write(text):
        path = tmp_path / "gunicorn.conf.py"
        path.write_text(text)
        return str(path)

    return write
