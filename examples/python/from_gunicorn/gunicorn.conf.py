# A configuration of gunicorn that Tidegate reads as it is:
#
#   cd examples/python/from_gunicorn
#   gunicorn shop:app                               # before
#   gunicorn -k tidegate.Worker shop:app            # Tidegate as a worker of gunicorn
#   tidegate run -c gunicorn.conf.py shop:app       # Tidegate alone

bind = "127.0.0.1:8000"
workers = 2
threads = 4
timeout = 60
max_requests = 10_000
max_requests_jitter = 1_000
proc_name = "shop"


def post_fork(server, worker):
    server.log.info("worker %s begins", worker.pid)


def when_ready(server):
    server.log.info("the shop is open")
