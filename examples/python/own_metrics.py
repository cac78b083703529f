"""The application's own metrics, of all workers, next to those of the server.

    pip install prometheus_client
    tidegate run own_metrics:app --app-dir examples/python --workers 2 --admin 127.0.0.1:9180
    curl -d '' http://127.0.0.1:8000/orders; curl -s http://127.0.0.1:9180/metrics | grep shop_
"""

from flask import Flask
from prometheus_client import Counter, Histogram

app = Flask(__name__)
ORDERS = Counter("shop_orders", "Orders.", ["kind"])
TOTALS = Histogram("shop_total_euros", "Totals of orders.", buckets=(10, 100, 1000))


@app.post("/orders")
def order():
    ORDERS.labels("online").inc()
    TOTALS.observe(120)
    return "", 204
