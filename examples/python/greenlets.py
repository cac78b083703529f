"""Server-sent events from WSGI: in greenlets, so that thousands of clients need one thread.

    pip install gevent
    tidegate run greenlets:app --app-dir examples/python --threads gevent
    curl -N http://127.0.0.1:8000/events & curl -d 'low tide at six' http://127.0.0.1:8000/events
"""

from flask import Flask, Response, request

from tidegate import broadcast

app = Flask(__name__)


@app.get("/events")
def events():
    def stream():
        with broadcast.listen("events") as messages:
            yield ": listening\n\n"
            while True:
                # Another greenlet runs while this one waits. A comment shows that both ends exist.
                message = messages.get(timeout=15)
                yield ":\n\n" if message is None else f"data: {message}\n\n"
    return Response(stream(), mimetype="text/event-stream")


@app.post("/events")
def publish():
    broadcast.publish("events", request.get_data(as_text=True))
    return "", 204
