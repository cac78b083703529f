"""`tidegate.cache` without a framework: a decorator, a rate limit, a lock.

    tidegate run cached_reports:app --app-dir examples/python --workers 2
    curl http://127.0.0.1:8000/reports/2026
"""

from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from tidegate import cache

MOST_PER_MINUTE = 5


@cache.cached(ttl=60)
async def report(year):
    """Concurrent calls in all workers share one result."""
    return {"year": year, "number": await cache.aincr("reports")}


async def show(request):
    client = request.client.host
    if await cache.aincr(f"asked:{client}", ttl=60) > MOST_PER_MINUTE:
        return PlainTextResponse("too many requests\n", 429, {"retry-after": "60"})
    return JSONResponse(await report(request.path_params["year"]))


async def forget(request):
    await report.forget(request.path_params["year"])
    return PlainTextResponse("", 204)


app = Starlette(routes=[
    Route("/reports/{year:int}", show), Route("/reports/{year:int}", forget, methods=["DELETE"])])
