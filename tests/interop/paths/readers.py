"""Targets on stdin, one a line; for each the paths that readers of Python see, as a line of JSON.

Werkzeug and aiohttp are read with where they are installed; which are is said on the first line.
"""

import json
import posixpath
import sys
import urllib.parse

try:
    import werkzeug.exceptions
    import werkzeug.routing
    import werkzeug.test
    import werkzeug.wrappers
except ImportError:
    werkzeug = None
try:
    import aiohttp.test_utils
    import yarl
except ImportError:
    aiohttp = None


def standard(target):
    path = urllib.parse.urlsplit("http://h" + target).path
    decoded = urllib.parse.unquote(path)
    yield "urlsplit", path
    yield "urlsplit, relative", urllib.parse.urlsplit(target).path
    yield "unquote", decoded
    yield "posixpath.normpath", posixpath.normpath(decoded)
    yield "posixpath.normpath, raw", posixpath.normpath(path)
    yield "urljoin", urllib.parse.urljoin("http://h/", target).removeprefix("http://h")


def with_werkzeug(target):
    path, _, query = target.partition("?")
    environ = {
        "REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "SERVER_NAME": "h", "SERVER_PORT": "80",
        "PATH_INFO": urllib.parse.unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query, "wsgi.url_scheme": "http", "REQUEST_URI": target,
    }
    request = werkzeug.wrappers.Request(environ)
    yield "Werkzeug path", request.path
    yield "Werkzeug url", urllib.parse.urlsplit(request.url).path
    try:
        yield "Werkzeug map", MAP.bind_to_environ(environ).match()[0]
    except werkzeug.routing.RequestRedirect as redirect:
        yield "Werkzeug redirect", urllib.parse.urlsplit(redirect.new_url).path
    except werkzeug.exceptions.HTTPException:
        pass


def with_aiohttp(target):
    request = aiohttp.test_utils.make_mocked_request("GET", target)
    yield "aiohttp path", request.path
    yield "aiohttp rel_url", request.rel_url.raw_path
    yield "yarl", yarl.URL("http://h" + target).path
    yield "yarl join", yarl.URL("http://h/").join(yarl.URL(target)).path


readers = [standard]
if werkzeug:
    MAP = werkzeug.routing.Map([
        werkzeug.routing.Rule("/private", endpoint="/private"),
        werkzeug.routing.Rule("/private/<path:rest>", endpoint="/private/"),
        werkzeug.routing.Rule("/", endpoint="/"),
        werkzeug.routing.Rule("/<path:rest>", endpoint="/"),
    ])
    readers.append(with_werkzeug)
if aiohttp:
    readers.append(with_aiohttp)
names = {"Werkzeug": werkzeug, "aiohttp": aiohttp}
print(json.dumps([name for name, module in names.items() if module]))
for line in sys.stdin.buffer.read().split(b"\n"):
    target = line.decode("ascii")
    if target:
        seen = {}
        for read in readers:
            try:
                seen.update(read(target))
            except (ValueError, TypeError):
                pass  # rejected by this reader
        print(json.dumps(seen))
