"""A site with Django Channels, for test_channels: consumers of each kind, sessions and users.

    python channels_app.py          creates its database, with the user `ann`
"""

import json
import os
import sys
import threading

import django
from asgiref.sync import async_to_sync
from django.conf import settings
from django.http import JsonResponse
from django.urls import path, re_path

from stage import note

settings.configure(
    SECRET_KEY="only for tests",
    ALLOWED_HOSTS=["shop.example", "127.0.0.1", "test"],
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes"],
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware",
                "django.contrib.auth.middleware.AuthenticationMiddleware"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3",
                           "NAME": os.environ["CHANNELS_DATABASE"]}},
    # Sessions and the layer are shared by the workers.
    CACHES={"default": {"BACKEND": "tidegate.integrations.django.Cache"}},
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    CHANNEL_LAYERS={"default": {"BACKEND": "tidegate.integrations.channels.ChannelLayer"}},
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
)
django.setup()

# Django's settings come first.
from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.consumer import AsyncConsumer  # noqa: E402
from channels.db import database_sync_to_async  # noqa: E402
from channels.exceptions import AcceptConnection, DenyConnection, StopConsumer  # noqa: E402
from channels.generic.http import AsyncHttpConsumer  # noqa: E402
from channels.generic.websocket import (  # noqa: E402
    AsyncJsonWebsocketConsumer,
    AsyncWebsocketConsumer,
    JsonWebsocketConsumer,
    WebsocketConsumer,
)
from channels.layers import get_channel_layer  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402
from django.contrib.auth import authenticate, login  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402


class Echo(AsyncWebsocketConsumer):
    async def connect(self):
        offered = self.scope["subprotocols"]
        await self.accept(subprotocol=offered[-1] if offered else None,
                          headers=[(b"x-consumer", b"echo")])

    async def receive(self, text_data=None, bytes_data=None):
        await self.send(text_data=text_data, bytes_data=bytes_data)


class SyncEcho(WebsocketConsumer):
    def connect(self):
        raise AcceptConnection

    def receive(self, text_data=None, bytes_data=None):
        self.send(text_data=text_data, bytes_data=bytes_data)


class Json(AsyncJsonWebsocketConsumer):
    async def receive_json(self, content):
        await self.send_json({"got": content})


class SyncJson(JsonWebsocketConsumer):
    def receive_json(self, content):
        self.send_json({"got": content})


class Denies(AsyncWebsocketConsumer):
    async def connect(self):
        raise DenyConnection


class ClosesFirst(WebsocketConsumer):
    def connect(self):
        self.close(code=4001)


class Closes(AsyncWebsocketConsumer):
    async def receive(self, text_data=None, bytes_data=None):
        if text_data == "last":
            await self.send(text_data="the last", close=4003)
        else:
            await self.close(code=4002, reason="enough")


class Raises(AsyncWebsocketConsumer):
    async def receive(self, text_data=None, bytes_data=None):
        raise LookupError("no such room")


class SyncRaises(WebsocketConsumer):
    def receive(self, text_data=None, bytes_data=None):
        raise LookupError("no such hall")


class Stops(AsyncWebsocketConsumer):
    async def receive(self, text_data=None, bytes_data=None):
        raise StopConsumer


class Facts(AsyncWebsocketConsumer):
    """Sends what it finds in its scope."""

    async def connect(self):
        await self.accept()
        user, visits = self.scope["user"], self.scope["session"].get("visits")
        facts = [user.get_username(), visits, self.scope["url_route"],
                 self.scope["query_string"].decode(), await self.users()]
        await self.send(text_data=json.dumps(facts))

    @database_sync_to_async
    def users(self):
        return User.objects.count()


def left(scope, code=None):
    """Takes a note under the name that the client has in its query."""
    note(f"left-{scope['query_string'].decode()}", code)


class Room(AsyncWebsocketConsumer):
    """A member of the group of its path. Its first message has its process and its channel."""

    async def connect(self):
        self.room = self.scope["url_route"]["kwargs"]["room"]
        await self.channel_layer.group_add(self.room, self.channel_name)
        await self.accept()
        await self.send(text_data=json.dumps([os.getpid(), self.channel_name]))

    async def disconnect(self, code):
        await self.channel_layer.group_discard(self.room, self.channel_name)
        left(self.scope, code)

    async def receive(self, text_data=None, bytes_data=None):
        if text_data == "leave":
            await self.channel_layer.group_discard(self.room, self.channel_name)
            await self.send(text_data="alone")
            return
        message = {"type": "room.message", "text": text_data}
        await self.channel_layer.group_send(self.room, message)

    async def room_message(self, event):
        await self.send(text_data=event["text"])


class SyncRoom(WebsocketConsumer):
    """The same in threads, of the group `hall`."""

    groups = ["hall"]

    def connect(self):
        self.accept()
        self.send(text_data=json.dumps([os.getpid(), self.channel_name]))

    def disconnect(self, code):
        left(self.scope, code)

    def receive(self, text_data=None, bytes_data=None):
        message = {"type": "room.message", "text": text_data}
        async_to_sync(self.channel_layer.group_send)("hall", message)

    def room_message(self, event):
        self.send(text_data=event["text"])


class Upload(AsyncHttpConsumer):
    async def handle(self, body):
        await self.send_response(200, b"%d bytes" % len(body), headers=[(b"x-consumer", b"upload")])


class Events(AsyncHttpConsumer):
    """Server-sent events of the group `news`."""

    async def http_request(self, message):
        await self.channel_layer.group_add("news", self.channel_name)
        await self.send_headers(headers=[(b"content-type", b"text/event-stream")])
        await self.send_body(b"data: welcome\n\n", more_body=True)

    async def room_message(self, event):
        text = event["text"].encode()
        await self.send_body(b"data: " + text + b"\n\n", more_body=text != b"closed")
        if text == b"closed":
            raise StopConsumer

    async def disconnect(self):
        await self.channel_layer.group_discard("news", self.channel_name)
        left(self.scope)


class LongPoll(AsyncConsumer):
    """Responds with the next message of the group `news`."""

    async def http_request(self, message):
        await self.channel_layer.group_add("news", self.channel_name)
        note("polls")

    async def room_message(self, event):
        await self.send({"type": "http.response.start", "status": 200, "headers": []})
        await self.send({"type": "http.response.body", "body": event["text"].encode()})
        raise StopConsumer


def signs_in(request):
    login(request, authenticate(request, username="ann", password="secret"))
    request.session["visits"] = 3
    return JsonResponse({})


def says(request, room):
    """From a view in a thread, whose coroutines run on the event loop of the server."""
    message = {"type": "room.message", "text": request.GET["text"]}
    async_to_sync(get_channel_layer().group_send)(room, message)
    return JsonResponse({})


async def says_from_a_coroutine(request, room):
    message = {"type": "room.message", "text": request.GET["text"]}
    await get_channel_layer().group_send(room, message)
    return JsonResponse({})


def says_from_a_thread(request, room):
    """From a thread without an event loop, which has one of its own for each call."""
    def run():
        for number in range(3):
            message = {"type": "room.message", "text": f"{request.GET['text']} {number}"}
            async_to_sync(get_channel_layer().group_send)(room, message)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return JsonResponse({})


async def tells(request):
    """To one channel."""
    message = {"type": "room.message", "text": request.GET["text"]}
    await get_channel_layer().send(request.GET["channel"], message)
    return JsonResponse({})


urlpatterns = [
    path("signs_in", signs_in),
    path("says/<slug:room>", says),
    path("says_from_a_coroutine/<slug:room>", says_from_a_coroutine),
    path("says_from_a_thread/<slug:room>", says_from_a_thread),
    path("tells", tells),
]

sessions = URLRouter([
    path("echo", Echo.as_asgi()), path("sync_echo", SyncEcho.as_asgi()),
    path("json", Json.as_asgi()), path("sync_json", SyncJson.as_asgi()),
    path("denies", Denies.as_asgi()), path("closes_first", ClosesFirst.as_asgi()),
    path("closes", Closes.as_asgi()),
    path("raises", Raises.as_asgi()), path("sync_raises", SyncRaises.as_asgi()),
    path("stops", Stops.as_asgi()),
    path("shops/<slug:shop>/", URLRouter([
        re_path(r"^items/(?P<item>\d+)$", Facts.as_asgi()),
    ])),
    path("rooms/<slug:room>", Room.as_asgi()),
    path("hall", SyncRoom.as_asgi()),
])

app = ProtocolTypeRouter({
    "http": URLRouter([
        path("upload", Upload.as_asgi()),
        path("events", Events.as_asgi()),
        path("poll", LongPoll.as_asgi()),
        re_path("", get_asgi_application()),
    ]),
    "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(sessions)),
})

if __name__ == "__main__":
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    User.objects.create_user("ann", password="secret")
    sys.exit()
