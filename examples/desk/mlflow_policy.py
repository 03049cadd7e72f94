"""An exported policy as an MLflow model, which needs the file of `agent.export`, not zooming."""

import runpy
import sys

import gymnasium as gym
import mlflow
import pandas as pd

import zooming


class Policy(mlflow.pyfunc.PythonModel):
    """Columns step, state_0, ...: one action per row."""

    def load_context(self, context):
        self.act = runpy.run_path(context.artifacts["policy"])["act"]

    def predict(self, context, model_input, params=None):
        return [self.act(int(step), state) for step, *state in model_input.itertuples(index=False)]


folder = sys.argv[1] if len(sys.argv) > 1 else "out/mlflow"
agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
agent.learn(500)
agent.export(f"{folder}.py")
mlflow.pyfunc.save_model(folder, python_model=Policy(), artifacts={"policy": f"{folder}.py"})
found = mlflow.pyfunc.load_model(folder).predict(pd.DataFrame({"step": [0], "state_0": [0.3]}))
print(found, agent.predict([0.3])[0])
