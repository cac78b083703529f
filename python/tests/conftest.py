"""One server for each file of tests, unless a test starts its own."""

import pytest

from hosting import KIND, Server, serve


def pytest_configure(config):
    config.addinivalue_line("markers", "fails_on(*servers): they are known to fail this")


def pytest_collection_modifyitems(items):
    for item in items:
        for mark in item.iter_markers("fails_on"):
            if KIND in mark.args:
                item.add_marker(pytest.mark.xfail(reason=f"{KIND} does not do that"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """What failed comes with the logs of the servers that it talked with."""
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
    """The server of this file: it serves the file's own `app`, with its OPTIONS."""
    module = request.module
    options = getattr(module, "OPTIONS", {})
    interface = getattr(module, "INTERFACE", "asgi")
    with serve(f"{module.__name__}:app", interface, **options) as running:
        yield running.ready()


@pytest.fixture
def start_server():
    """Start servers of one's own; they end with the test."""
    started = []

    def start(target, interface="asgi", ready=True, **options):
        running = serve(target, interface, **options)
        started.append(running)
        return running.ready() if ready else running

    start.started = started
    yield start
    for running in started:
        running.stop()
