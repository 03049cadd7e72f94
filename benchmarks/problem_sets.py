"""The problems on which agents are compared: a train set, and other settings of the same problems.

Constants of agents may be chosen by the train set only. "Operations" are the problems of the
gallery, "paper" the paper's fifteen with the oil's well off the dyadic grid. The other settings
have the same generators with other numbers, so they are no independent problems.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium as gym

from foreign import FOREIGN


class Problem(NamedTuple):
    """An environment by name and options, and the resolution at which it is solved."""

    kind: str
    options: dict[str, Any]
    resolution: int | None = 400

    def make(self) -> Any:
        return gym.make(f"zooming/{self.kind}-v0", **self.options)


WELL = 0.7071  # not the center of a ball
OPERATIONS = {
    kind: Problem(kind, {}, resolution)
    for kind, resolution in {
        "Newsvendor": 200, "Inventory": 30, "Pricing": 200, "Queue": 100, "Admission": 100,
        "Storage": 30, "Autoscaling": 128, "Bidding": 200, "Allocation": 60, "GraphAmbulance": None,
        "RiverSwim": 200, "Regulator": 200,
    }.items()
}  # fmt: skip
PAPER = {
    **{
        f"oil-{survey}-{sharpness:g}": Problem(
            "Oil", {"survey": survey, "sharpness": sharpness, "center": WELL}
        )
        for survey in ("laplace", "quadratic")
        for sharpness in (1.0, 10.0, 50.0)
    },
    **{
        f"ambulance-{arrivals}-{weight:g}": Problem(
            "Ambulance", {"arrivals": arrivals, "travel_weight": weight}
        )
        for arrivals in ("beta", "uniform", "shifting")
        for weight in (0.0, 0.25, 1.0)
    },
}
OTHER_OPERATIONS = {
    "newsvendor-thin": Problem("Newsvendor", {"demand": 8.0, "price": 1.6, "capacity": 30.0}, 200),
    "inventory-short": Problem(
        "Inventory", {"lead_time": 1, "demand": 7.0, "fixed_cost": 5.0, "backlog": 4.0}, 60
    ),
    "pricing-busy": Problem("Pricing", {"customers": 15.0, "worth": 60.0, "seats": 40}, 200),
    "queue-busy": Problem("Queue", {"arrivals": 5.0, "fastest": 9.0, "energy": 0.2}, 100),
    "admission-slow": Problem("Admission", {"arrivals": 8.0, "service": 3.0, "waiting": 0.5}, 100),
    "storage-volatile": Problem("Storage", {"volatility": 0.08, "efficiency": 0.8}, 30),
    "autoscaling-slow": Problem("Autoscaling", {"start_cost": 4.0, "per_server": 6.0}, 128),
    "bidding-many": Problem("Bidding", {"rivals": 6, "tick": 0.25}, 200),
    "river-short": Problem("RiverSwim", {"reach": 0.3, "horizon": 12}, 200),
    "regulator-noisy": Problem("Regulator", {"gain": 1.2, "noise": 0.3, "horizon": 8}, 200),
}
OTHER_PAPER = {
    "oil-laplace-25": Problem("Oil", {"sharpness": 25.0, "center": 0.31}),
    "oil-quadratic-25": Problem("Oil", {"survey": "quadratic", "sharpness": 25.0, "center": 0.123}),
    "oil-noisy": Problem("Oil", {"sharpness": 10.0, "center": WELL, "noise": 0.1}),
    "oil-anywhere": Problem("Oil", {"sharpness": 10.0, "center": WELL, "start": "uniform"}),
    "oil-long": Problem("Oil", {"sharpness": 10.0, "center": 0.58, "horizon": 10}),
    "ambulance-near": Problem("Ambulance", {"arrivals": "uniform", "travel_weight": 0.75}),
    "ambulance-long": Problem("Ambulance", {"travel_weight": 0.5, "horizon": 10}),
    "ambulance-anywhere": Problem(
        "Ambulance", {"arrivals": "uniform", "start": "uniform", "horizon": 3}
    ),
}
SETS = {
    "train": (OPERATIONS, PAPER),
    "other-settings": (OTHER_OPERATIONS, OTHER_PAPER),
    "foreign": (FOREIGN, {}),
}
PROBLEMS: dict[str, Any] = {
    name: one for pair in SETS.values() for group in pair for name, one in group.items()
}
