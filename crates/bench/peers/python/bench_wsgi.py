# Applications of WSGI: https://peps.python.org/pep-3333/
import time

TEXT = ("Content-Type", "text/plain")


def hello(environ, start_response):
    start_response("200 OK", [TEXT, ("Content-Length", "4")])
    return [b"pong"]


def sleep(environ, start_response):
    time.sleep(0.01)
    return hello(environ, start_response)


def echo(environ, start_response):
    body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
    start_response("200 OK", [TEXT, ("Content-Length", str(len(body)))])
    return [body]
