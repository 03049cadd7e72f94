"""The paper's two problems and a way to add your own: a dynamics function as a Gymnasium environment."""
