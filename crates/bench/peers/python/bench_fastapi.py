# An endpoint as in https://fastapi.tiangolo.com/tutorial/response-model/
from fastapi import FastAPI
from pydantic import BaseModel


class Item(BaseModel):
    number: int
    name: str
    price: float
    tags: list[str]


app = FastAPI()


@app.get("/items/{number}")
async def item(number: int, name: str = "tide") -> Item:
    return Item(number=number, name=name, price=9.5, tags=["low", "high"])
