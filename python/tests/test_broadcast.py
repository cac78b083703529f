"""tidegate.broadcast: its calls, in this process and over two workers."""

import asyncio
import json
import os
import threading

import pytest

from hosting import KIND
from stage import Stage, more, reply, start
from websocket_frames import Session
from workers import both, paused

if KIND != "tidegate":
    pytest.skip("only ours has a broadcast", allow_module_level=True)

from tidegate import broadcast

app = Stage()
OPTIONS = {"workers": 2}
MIB = 1024 * 1024


def test_messages_are_received_in_order():
    async def listen():
        async with broadcast.subscribe("a", "b") as messages, broadcast.subscribe("b") as others:
            await broadcast.apublish("a", "text")
            broadcast.publish("b", b"\xff")
            await broadcast.apublish("c", "no subscriber")
            assert [await anext(messages), await anext(messages)] == ["text", b"\xff"]
            assert await anext(others) == b"\xff"
            broadcast.publish("a", "named")
            assert await anext(messages.named()) == ("a", "named")

    asyncio.run(listen())


def test_a_subscriber_waits_without_blocking_the_loop():
    async def listen():
        async with broadcast.subscribe("a") as messages:
            waiting = asyncio.create_task(anext(messages))
            for _ in range(10):
                await asyncio.sleep(0)
            assert not waiting.done()
            threading.Thread(target=broadcast.publish, args=("a", "from a thread")).start()
            assert await waiting == "from a thread"

    asyncio.run(listen())


def test_a_cancelled_wait_loses_no_message():
    async def listen():
        async with broadcast.subscribe("a") as messages:
            for number in range(20):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(anext(messages), 0.001)
                broadcast.publish("a", str(number))
                assert await anext(messages) == str(number)

    asyncio.run(listen())


def test_a_closed_subscription_receives_nothing():
    async def listen():
        async with broadcast.subscribe("a") as messages:
            pass
        broadcast.publish("a", "late")
        assert [message async for message in messages] == []
        with pytest.raises(RuntimeError, match="async with"):
            await anext(broadcast.subscribe("a"))

    asyncio.run(listen())


def test_a_slow_subscriber_is_dropped_with_an_exception():
    async def listen():
        async with broadcast.subscribe("a") as slow, broadcast.subscribe("a") as quick:
            chunks = []
            for number in range(6):
                broadcast.publish("a", b"%d" % number + b"x" * (MIB - 1))
                chunks.append((await anext(quick))[0:1])
            assert chunks == [b"0", b"1", b"2", b"3", b"4", b"5"]
            kept = []
            with pytest.raises(broadcast.SlowSubscriber, match="too slow"):
                async for message in slow:
                    kept.append(message[0:1])
            assert kept == [b"0", b"1", b"2"]

    asyncio.run(listen())


def test_invalid_messages_are_rejected():
    for message in (None, 5, {"a": 1}):
        with pytest.raises(TypeError, match="serialise it first"):
            broadcast.publish("a", message)
    with pytest.raises(ValueError, match="1048576 bytes"):
        broadcast.publish("a", b"x" * (MIB + 1))
    with pytest.raises(ValueError, match="1 to 1024 bytes"):
        broadcast.publish("", "x")
    with pytest.raises(ValueError, match="1 to 1024 bytes"):
        broadcast.listen("c" * 1025)


def test_a_thread_listens():
    with broadcast.listen("a") as messages:
        assert messages.get(timeout=0.01) is None
        threading.Thread(target=broadcast.publish, args=("a", "one")).start()
        assert next(messages) == "one"
        broadcast.publish("a", "two")
        assert messages.get(timeout=60) == "two"
        threading.Thread(target=messages.close).start()
        assert list(messages) == []
    assert messages.get() is None


# ---------------------------------------------------------------------------- over two workers


@app.part
async def pid(scope, receive, send):
    await reply(send, os.getpid())


@app.part
async def events(scope, receive, send):
    """Server-sent events of a channel, until it is closed."""
    async with broadcast.subscribe("room") as messages:
        await start(send, headers=[(b"content-type", b"text/event-stream")])
        await more(send, b"data: welcome\n\n")
        async for message in messages:
            await more(send, b"data: " + message.encode() + b"\n\n")
            if message == "closed":
                break
    await more(send, b"", False)


@app.part
async def say(scope, receive, send):
    await broadcast.apublish("room", scope["query_string"].decode())
    await reply(send, b"")


def test_server_sent_events_come_from_every_worker(server):
    listeners = [*both(server), server.connect()]
    for listener in listeners:
        listener.send("GET /events HTTP/1.1\r\nhost: test\r\n\r\n")
        assert listener.head().status == 200
        assert listener.chunk() == b"data: welcome\n\n"
    for word in (b"hello", b"you", b"closed"):
        assert server.get(f"/say?{word.decode()}").status == 200
    for listener in listeners:
        chunks = [listener.chunk() for _ in range(4)]
        assert chunks == [b"data: hello\n\n", b"data: you\n\n", b"data: closed\n\n", b""]


@app.part
async def chat(scope, receive, send):
    """Every client receives all messages. Ends when the client disconnects."""
    assert (await receive())["type"] == "websocket.connect"
    async with broadcast.subscribe("chat") as messages:
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": json.dumps(os.getpid())})

        async def pass_on():
            async for message in messages:
                await send({"type": "websocket.send", "text": message})

        passing_on = asyncio.create_task(pass_on())
        while (event := await receive())["type"] == "websocket.receive":
            await broadcast.apublish("chat", event["text"])
        passing_on.cancel()


def test_a_chat_over_two_workers(server):
    one = Session(server.port, "/chat").opened()
    with paused(int(one.message())):
        other = Session(server.port, "/chat").opened()
        other.message()
    with one, other:
        for speaker, words in ((one, "hello"), (other, "hello you"), (one, "bye \U0001f980")):
            speaker.send(words)
            assert (one.message(), other.message()) == (words, words)
