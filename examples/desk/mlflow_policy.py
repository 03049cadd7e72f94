"""An exported policy as an MLflow model, which needs the file of `agent.export`, not zooming."""

import importlib.util
import sys
from pathlib import Path

import gymnasium as gym
import mlflow
import pandas as pd

import zooming


class Policy(mlflow.pyfunc.PythonModel):
    """Columns step, state_0, ...: one action per row."""

    def load_context(self, context):
        spec = importlib.util.spec_from_file_location("policy", context.artifacts["policy"])
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)

    def predict(self, context, model_input, params=None):
        rows = model_input.itertuples(index=False)
        return [self.module.act(int(step), state) for step, *state in rows]


def main(folder="out/mlflow"):
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    agent.learn(500)
    agent.export(Path(folder).with_suffix(".py"))
    artifacts = {"policy": str(Path(folder).with_suffix(".py"))}
    mlflow.pyfunc.save_model(folder, python_model=Policy(), artifacts=artifacts)
    found = mlflow.pyfunc.load_model(folder).predict(pd.DataFrame({"step": [0], "state_0": [0.3]}))
    print(found, agent.predict([0.3])[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
