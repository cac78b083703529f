"""aiocache in memory that all workers share.

    pip install aiocache
    tidegate run aiocache_weather:app --app-dir examples/python --workers 2
    curl http://127.0.0.1:8000/weather/Brest
"""

from aiocache import cached
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

import tidegate.cache
from tidegate.integrations.aiocache import Cache


@cached(ttl=60, cache=Cache, namespace="weather:")
async def measured(station):
    """Measured once in a minute, by one of all workers."""
    return {"station": station, "measurement": await tidegate.cache.aincr("measurements")}


async def weather(request):
    return JSONResponse(await measured(request.path_params["station"]))


app = Starlette(routes=[Route("/weather/{station}", weather)])
