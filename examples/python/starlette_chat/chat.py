"""A chat in Starlette: WebSocket, with rooms shared by all worker processes.

    tidegate run chat:app --app-dir examples/python/starlette_chat --workers 2
    open http://127.0.0.1:8000/
"""

import asyncio
import contextlib
import json

from starlette.applications import Starlette
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocketDisconnect

from tidegate import broadcast, cache

PAGE = """<!doctype html><title>Chat</title><pre id=said></pre>
<form><input name=text autofocus autocomplete=off></form>
<script>
const base = location.host + location.pathname.replace(/\\/$/, "")
const name = "guest" + Math.floor(Math.random() * 1e4)
const socket = new WebSocket(`ws://${base}/rooms/lobby?name=${name}`)
socket.onmessage = event => said.textContent += JSON.parse(event.data).said + "\\n"
document.forms[0].onsubmit = event => {
  event.preventDefault(); socket.send(event.target.text.value); event.target.reset()
}
</script>
"""


async def page(request):
    return HTMLResponse(PAGE)


async def count(request):
    """How many have come into a room so far, in whichever worker."""
    return PlainTextResponse(str(await cache.aget(f"came:{request.path_params['room']}", 0)))


async def room(socket):
    """One guest: what it says goes to everyone in the room, and what they say to it."""
    name = socket.query_params.get("name", "")
    if not name.isalnum():
        # Before accept: the handshake is refused with 403.
        return await socket.close()
    channel = f"room:{socket.path_params['room']}"
    async with broadcast.subscribe(channel) as messages:
        await socket.accept(subprotocol="chat" if "chat" in socket.scope["subprotocols"] else None)
        await cache.aincr(f"came:{socket.path_params['room']}")
        await broadcast.apublish(channel, json.dumps({"from": name, "said": f"{name} is here"}))
        telling = asyncio.create_task(tell(socket, messages))
        try:
            while True:
                said = await socket.receive_text()
                await broadcast.apublish(channel, json.dumps({"from": name, "said": said}))
        except WebSocketDisconnect:
            await broadcast.apublish(channel, json.dumps({"from": name, "said": f"{name} left"}))
        finally:
            telling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await telling


async def tell(socket, messages):
    with contextlib.suppress(WebSocketDisconnect):
        async for message in messages:
            await socket.send_text(message)


app = Starlette(routes=[
    Route("/", page),
    Route("/rooms/{room}/count", count),
    WebSocketRoute("/rooms/{room}", room),
])
