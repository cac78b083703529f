"""One server for each test file, unless a test starts its own."""

import pytest

from hosting import KIND, Server, serve


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
