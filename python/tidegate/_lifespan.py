"""The lifespan protocol of ASGI: startup and shutdown events for the application."""

import asyncio

from tidegate._log import logger


class Failed(Exception):
    """The application failed to start; the text is shown to the operator."""


class Lifespan:
    """The startup and shutdown of one application. If ``is_supported``, ``state`` is shared with
    its requests."""

    def __init__(self, application, mode: str) -> None:
        self.application = application
        self.mode = mode
        self.state: dict = {}
        self.task: asyncio.Task | None = None
        self._events: asyncio.Queue = asyncio.Queue()
        self._started = asyncio.Event()
        self._stopped = asyncio.Event()
        self._failure: str | None = None
        self.is_supported = False

    async def startup(self) -> None:
        """Returns when the application has started; raises ``Failed`` when it cannot."""
        if self.mode == "off":
            return
        self.task = asyncio.get_running_loop().create_task(self._run())
        await self._events.put({"type": "lifespan.startup"})
        await self._started.wait()
        if self._failure is not None:
            raise Failed(self._failure)

    async def shutdown(self) -> None:
        """Returns when the application has shut down."""
        if not self.is_supported or self.task is None or self.task.done():
            return
        await self._events.put({"type": "lifespan.shutdown"})
        await self._stopped.wait()

    async def _run(self) -> None:
        scope = {
            "type": "lifespan",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "state": self.state,
        }
        try:
            await self.application(scope, self._events.get, self._send)
        except BaseException as error:
            self._ended(error)
        finally:
            self._started.set()
            self._stopped.set()

    def _ended(self, error: BaseException) -> None:
        if self._started.is_set():
            logger.error("Exception in 'lifespan' protocol", exc_info=error)
        elif self.mode == "on":
            logger.error("Exception in 'lifespan' protocol", exc_info=error)
            self._failure = f"the application failed to start: {type(error).__name__}: {error}"
        else:
            # "If an exception is raised ..., the server must continue but not send any events."
            logger.debug("the application does not support 'lifespan'", exc_info=error)

    async def _send(self, message: dict) -> None:
        kind = message["type"]
        if kind == "lifespan.startup.complete":
            self.is_supported = True
            self._started.set()
        elif kind == "lifespan.startup.failed":
            reason = message.get("message") or "no reason given"
            self._failure = f"the application failed to start: {reason}"
            self._started.set()
        elif kind == "lifespan.shutdown.complete":
            self._stopped.set()
        elif kind == "lifespan.shutdown.failed":
            logger.error("the application failed to shut down: %s", message.get("message", ""))
            self._stopped.set()
        else:
            raise RuntimeError(f"ASGI message {kind!r} is not a 'lifespan' message")
