"""``tidegate.cache`` and ``tidegate.broadcast`` behind the interfaces of Django, Flask-Caching,
aiocache and Channels. Each module needs the package it is named after."""
