"""Views that control the gateway's cache: how long, under which tags, and when not any more.

    tidegate up examples/python/tagged_pages.yaml
    curl -i http://127.0.0.1:8080/products/7
    curl -d '' http://127.0.0.1:8080/products/7
"""

from flask import Flask, jsonify

from tidegate import cache, http_cache

app = Flask(__name__)
app.wsgi_app = http_cache.middleware(app.wsgi_app)


@app.get("/products/<int:number>")
@http_cache.stored(ttl=60, tags=lambda number: [f"product-{number}"], groups=["catalog"])
def product(number):
    return jsonify(number=number, made=cache.incr("made"))


@app.post("/products/<int:number>")
def change(number):
    """Responses of the group are not served again."""
    http_cache.invalidate("catalog")
    return "", 204
