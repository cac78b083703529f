"""A configuration of gunicorn that is a module: ``-c python:gunicorn_settings``."""

threads = 3
