"""A desk behind HTTP: `uvicorn service:app`. Several processes may share one database."""

import os

import gymnasium as gym
from fastapi import Body, FastAPI
from fastapi.responses import JSONResponse

import zooming

agent = zooming.Auto(gym.make("zooming/Pricing-v0"), seed=0)
desk = zooming.Desk(agent, os.environ.get("DESK", "shop.db"), reward_wait="2d", default_reward=0.0)
app = FastAPI()


@app.post("/ask")
def ask(episode: str = Body(), observation: list[float] = Body(), id: str | None = Body(None)):
    made = desk.ask(observation, episode, id=id)
    return {"id": made.id, "step": made.step, "action": made.action.tolist(), "by": made.by}


@app.post("/tell/{id}")
def tell(
    id: int,
    reward: float = Body(),
    next_observation: list[float] | None = Body(None),
    terminated: bool = Body(False),
):
    return {"kind": desk.tell(id, reward, next_observation, terminated)}


@app.exception_handler(zooming.ZoomingError)
def refuse(request, error):
    return JSONResponse({"detail": str(error)}, 422)
