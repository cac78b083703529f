"""A WSGI application of an existing deployment of gunicorn."""


def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"Welcome to the shop\n"]
