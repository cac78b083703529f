"""Flask-Caching in memory that all workers share.

    pip install flask-caching
    tidegate run flask_caching_prices:app --app-dir examples/python --workers 2
    curl http://127.0.0.1:8000/prices/chair
"""

from flask import Flask, jsonify
from flask_caching import Cache

import tidegate.cache

app = Flask(__name__)
app.config["CACHE_TYPE"] = "tidegate.integrations.flask_caching.Cache"
cache = Cache(app)


@cache.memoize(timeout=60)
def looked_up(item):
    """Looked up once in a minute, by one of all workers."""
    return {"item": item, "lookup": tidegate.cache.incr("lookups")}


@app.get("/prices/<item>")
def price(item):
    return jsonify(looked_up(item))


@app.delete("/prices/<item>")
def change(item):
    cache.delete_memoized(looked_up, item)
    return "", 204
