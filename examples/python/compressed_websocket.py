"""WebSocket messages that are alike, compressed with what came before them.

    tidegate run compressed_websocket:app --app-dir examples/python
"""

import json

from starlette.applications import Starlette
from starlette.routing import WebSocketRoute


async def prices(socket):
    """Sends as many prices as the client asks for. The server compresses; nothing is done here."""
    await socket.accept()
    for number in range(int(await socket.receive_text())):
        await socket.send_text(json.dumps({
            "instrument": "tidal energy, first quarter", "currency": "EUR", "price": number}))
    await socket.close()


app = Starlette(routes=[WebSocketRoute("/prices", prices)])
