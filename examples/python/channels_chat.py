"""A chat with Django Channels: a message reaches the clients of all workers, without Redis.

    pip install 'tidegate[channels]'
    tidegate run channels_chat:app --app-dir examples/python --workers 2
"""

import django
from django.conf import settings
from django.urls import path

settings.configure(
    SECRET_KEY="only for trying it out",
    CHANNEL_LAYERS={"default": {"BACKEND": "tidegate.integrations.channels.ChannelLayer"}},
)
django.setup()

# Django's settings come first.
from channels.generic.websocket import AsyncWebsocketConsumer  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402


class Chat(AsyncWebsocketConsumer):
    async def connect(self):
        self.room = self.scope["url_route"]["kwargs"]["room"]
        await self.channel_layer.group_add(self.room, self.channel_name)
        await self.accept()

    async def disconnect(self, code):
        await self.channel_layer.group_discard(self.room, self.channel_name)

    async def receive(self, text_data=None, bytes_data=None):
        await self.channel_layer.group_send(self.room, {"type": "said", "text": text_data})

    async def said(self, event):
        await self.send(text_data=event["text"])


app = ProtocolTypeRouter({"websocket": URLRouter([path("rooms/<slug:room>", Chat.as_asgi())])})
