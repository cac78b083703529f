"""A shop in Flask: WSGI, sessions in cookies, a page that a cache in front may keep, and orders
that a background job confirms.

    tidegate run shop:app --app-dir examples/python/flask_shop
    curl http://127.0.0.1:8000/products/2
"""

import io
import os
import time

from flask import Flask, Response, abort, jsonify, request, send_file, session, url_for
from tidegate import tasks

app = Flask(__name__)
app.secret_key = os.environ.get("SHOP_SECRET", "only for trying it out")

PRODUCTS = {1: ("a lamp", 40), 2: ("a chair", 120), 3: ("a kettle", 35)}


@app.get("/")
def index():
    links = "".join(f'<li><a href="{url_for("product", number=number)}">{name}</a></li>'
                    for number, (name, _) in PRODUCTS.items())
    return f"<!doctype html><title>Shop</title><ul>{links}</ul>"


@app.get("/products/<int:number>")
def product(number):
    """The same for all clients: a cache in front stores it for a minute."""
    name, price = PRODUCTS.get(number) or abort(404)
    answer = jsonify(name=name, price=price, made_at=time.time())
    answer.cache_control.public = True
    answer.cache_control.max_age = 60
    answer.headers["surrogate-key"] = f"products product-{number}"
    return answer


@app.get("/basket")
def basket():
    """Personal: no cache stores a private response."""
    answer = jsonify(items=session.get("items", {}), total=total())
    answer.cache_control.private = True
    return answer


@app.post("/basket")
def put_into_basket():
    number = request.form.get("product", type=int)
    if number not in PRODUCTS:
        abort(400, "there is no such product")
    items = session.setdefault("items", {})
    items[str(number)] = items.get(str(number), 0) + request.form.get("count", 1, type=int)
    session.modified = True
    return jsonify(items=items, total=total()), 201


def total():
    items = session.get("items", {}).items()
    return sum(PRODUCTS[int(number)][1] * count for number, count in items)


@tasks.task(retries=3, timeout=30, keep_result=3600)
def confirm(items):
    """Runs after the response, in any worker: it would send a mail."""
    return [f"{count} x {PRODUCTS[int(number)][0]}" for number, count in items.items()]


@app.post("/orders")
def order():
    job = confirm.enqueue(session.pop("items", None) or abort(400, "the basket is empty"))
    return jsonify(order=job.id), 202


@app.get("/orders/<int:number>")
def confirmation(number):
    try:
        return jsonify(confirmed=tasks.Job(number, confirm).result(timeout=5))
    except TimeoutError:
        return jsonify(confirmed=None)


@app.get("/receipt")
def receipt():
    """A file: wsgi.file_wrapper under the hood."""
    lines = [f"{count} x {PRODUCTS[int(number)][0]}\n"
             for number, count in session.get("items", {}).items()]
    text = "".join([*lines, f"total {total()}\n"]).encode()
    return send_file(io.BytesIO(text), mimetype="text/plain", as_attachment=True,
                     download_name="receipt.txt")


@app.get("/catalogue.csv")
def catalogue():
    """Written while it is sent."""
    def rows():
        yield "number,name,price\n"
        for number, (name, price) in PRODUCTS.items():
            yield f"{number},{name},{price}\n"
    return Response(rows(), mimetype="text/csv")
