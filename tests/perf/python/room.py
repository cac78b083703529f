"""A room of WebSocket clients: what is posted to /say reaches all of them.

`app` remembers the connections, as the manual of FastAPI shows it, and runs on any server with one
worker. `shared` uses `tidegate.broadcast`, which reaches the clients of all workers.
"""

connections = set()


async def forever(receive):
    while (await receive())["type"] != "websocket.disconnect":
        pass


async def reply(send, status, body=b""):
    await send({"type": "http.response.start", "status": status,
                "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


async def message_of(receive):
    body = b""
    while True:
        event = await receive()
        body += event.get("body", b"")
        if not event.get("more_body"):
            return body.decode()


async def app(scope, receive, send):
    if scope["type"] == "http":
        message = await message_of(receive)
        for connection in connections:
            await connection({"type": "websocket.send", "text": message})
        await reply(send, 204)
    elif scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        connections.add(send)
        try:
            await forever(receive)
        finally:
            connections.discard(send)
    else:
        raise RuntimeError("no lifespan")


async def shared(scope, receive, send):
    from tidegate import broadcast

    if scope["type"] == "http":
        await broadcast.apublish("room", await message_of(receive))
        await reply(send, 204)
    elif scope["type"] == "websocket":
        await receive()
        async with broadcast.subscribe("room") as messages:
            await send({"type": "websocket.accept"})
            async for message in messages:
                await send({"type": "websocket.send", "text": message})
    else:
        raise RuntimeError("no lifespan")
