"""Background jobs: after the response, later, and in periods; without a broker.

    tidegate run background_jobs:app --app-dir examples/python --workers 2
    curl -d 'ann@example.com' http://127.0.0.1:8000/mails
    curl http://127.0.0.1:8000/mails/1

With --task-store redis://... or postgresql://... they outlive the server.
"""

from flask import Flask, jsonify, request

from tidegate import cache, tasks

app = Flask(__name__)


@tasks.task(retries=3, timeout=30, keep_result=3600)
def send_mail(address):
    """Runs in any worker. It fails once, as other servers do, and is repeated after a second."""
    if tasks.current().attempt == 1:
        raise ConnectionError("the mail server is busy")
    return f"sent to {address}, attempt {tasks.current().attempt}"


@tasks.periodic(every=1)
def count_periods():
    """Once in each period, in one of all workers."""
    cache.incr("periods")


@app.post("/mails")
def enqueue():
    job = send_mail.enqueue(request.get_data(as_text=True))
    return jsonify(job=job.id), 202


@app.get("/mails/<int:number>")
def result(number):
    try:
        return jsonify(result=tasks.Job(number, send_mail).result(timeout=10))
    except TimeoutError:
        return jsonify(result=None), 202


@app.get("/periods")
def periods():
    return jsonify(cache.get("periods", 0))
