"""An API in FastAPI: checked JSON, an upload, server-sent events, a counter of all workers.

    tidegate run api:app --app-dir examples/python/fastapi_api --workers 2
    curl http://127.0.0.1:8000/docs
"""

import asyncio
import contextlib
import hashlib

from fastapi import BackgroundTasks, FastAPI, HTTPException, Request, UploadFile
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from tidegate import broadcast, cache


@contextlib.asynccontextmanager
async def lifespan(app):
    """What requests find in request.state; every worker process has its own."""
    yield {"measurements": asyncio.Lock(), "started": True}


app = FastAPI(title="Tides", lifespan=lifespan)


class Level(BaseModel):
    station: str = Field(min_length=1, max_length=40)
    metres: float = Field(ge=-20, le=20)


@app.get("/")
async def about(request: Request) -> dict:
    return {"name": "Tides", "started": request.state.started}


@app.post("/levels", status_code=201)
async def measure(level: Level, after: BackgroundTasks) -> dict:
    """Stored for all workers, and published to the subscribers of /levels/live."""
    count = await cache.aincr("levels")
    await cache.aset(f"level:{level.station}", level.model_dump_json(), ttl=3600)
    after.add_task(broadcast.apublish, "levels", level.model_dump_json())
    return {"count": count}


@app.get("/levels/live")
async def live(most: int = 1_000_000) -> StreamingResponse:
    """Server-sent events: each level as it is measured, in whichever worker."""
    async def events():
        async with broadcast.subscribe("levels") as levels:
            yield ": listening\n\n"
            told = 0
            async for level in levels:
                yield f"event: level\ndata: {level}\n\n"
                told += 1
                if told == most:
                    return
    return StreamingResponse(events(), media_type="text/event-stream",
                             headers={"cache-control": "no-store"})


@app.get("/levels/{station}")
async def level(station: str) -> Level:
    found = await cache.aget(f"level:{station}")
    if found is None:
        raise HTTPException(404, f"no level of {station} is known")
    return Level.model_validate_json(found)


@app.post("/charts")
async def chart(file: UploadFile) -> dict:
    """An upload that is never in memory as a whole."""
    digest = hashlib.sha256()
    size = 0
    while piece := await file.read(1 << 16):
        digest.update(piece)
        size += len(piece)
    return {"name": file.filename, "size": size, "sha256": digest.hexdigest()}
