"""A slow page: a line in the log with its stack, and its flame graph for clients with a token.

    export TIDEGATE_PROFILE_TOKEN=0123456789abcdef
    tidegate run slow_page:app --app-dir examples/python --slow-request 200ms
    curl http://127.0.0.1:8000/
    curl -H "Tidegate-Profile: $TIDEGATE_PROFILE_TOKEN" http://127.0.0.1:8000/ > page.svg
"""

import asyncio

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route


async def query_the_database():
    await asyncio.sleep(0.5)


def count_the_stars():
    return sum(number * number for number in range(1_000_000))


async def page(request):
    await query_the_database()
    return PlainTextResponse(f"{count_the_stars()}\n")


app = Starlette(routes=[Route("/", page)])
