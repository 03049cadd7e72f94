"""A desk behind HTTP: `uvicorn service:app`. Several processes may share one database."""

import os

import gymnasium as gym
from fastapi import FastAPI
from fastapi.responses import JSONResponse
from pydantic import BaseModel

import zooming

agent = zooming.Auto(gym.make("zooming/Pricing-v0"), seed=0)
desk = zooming.Desk(agent, os.environ.get("DESK", "shop.db"), reward_wait="2d", default_reward=0.0)
app = FastAPI()


class Question(BaseModel):  # noqa: D101
    episode: str
    observation: list[float]
    id: str | None = None


class Outcome(BaseModel):  # noqa: D101
    reward: float
    next_observation: list[float] | None = None
    terminated: bool = False


@app.post("/ask")
def ask(asked: Question):
    made = desk.ask(asked.observation, asked.episode, id=asked.id)
    return {"id": made.id, "step": made.step, "action": made.action.tolist(), "by": made.by}


@app.post("/tell/{id}")
def tell(id: int, outcome: Outcome):
    return {"kind": desk.tell(id, **outcome.model_dump())}


@app.exception_handler(zooming.ZoomingError)
def refuse(request, error):
    return JSONResponse({"detail": str(error)}, 422)
