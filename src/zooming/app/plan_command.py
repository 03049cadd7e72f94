"""The command `zooming plan`: a plan from an environment and a file of records, with one page."""

from __future__ import annotations

import html
import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from zooming import notebook
from zooming.agents.base.status import plain, plain_ends
from zooming.agents.files.container import write_atomically
from zooming.analysis.plan import Comparison, Plan, plan
from zooming.envs.compiled import find_compiled
from zooming.envs.declared import with_records
from zooming.errors import ConfigurationError
from zooming.logs.noise import read_records
from zooming.plots.style import COLORS, drawing
from zooming.spaces.names import printable
from zooming.validation import Floats, count_noun


def plan_records(
    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")],
    records: Annotated[str, tyro.conf.arg(metavar="FILE")],
    noise: tuple[str, ...] = (),
    out: Annotated[str, tyro.conf.arg(metavar="FOLDER")] = "plan",
    episode: str | None = None,
    step: str | None = None,
    by: str | None = None,
    censored: str | None = None,
    context: tuple[str, ...] = (),
    dependent: bool = False,
    bad: str = "refuse",
    folds: int = 10,
    rule: Annotated[str | None, tyro.conf.arg(metavar="MODULE:FUNCTION")] = None,
    rules: int = 6,
    names: tuple[str, ...] = (),
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE")] = (),
) -> None:
    """Plan with the equations of an environment and records of its noise, and write one page.

    Args:
        env: a preset, a Gymnasium id, or module:Id of your own, as for zooming run. Its dynamics
            take an outcome; its own law is not used.
        records: .csv or .parquet file.
        noise: columns of noise, as many as the dynamics take; by default all that no other option
            names.
        out: folder for plan.html, policy.html, plan.zoom, policy.py and plan.json.
        episode: column that names the episode.
        step: column with the step of the episode, from 0.
        by: column with the season of a step.
        censored: column that is 1 where the noise was at least the value.
        context: columns of states and actions; the plan warns if the noise depends on them.
        dependent: whether noise depends on earlier noise, so that episodes are kept whole.
        bad: refuse or skip rows with faults.
        folds: parts of the records for the value out of sample.
        rule: function(step, observation) of yours that the plan is compared with, by default the
            environment's rule, if it has one.
        rules: most rules a step on the page.
        names: names of the state and action axes, the state's first.
        set: options of the environment.
    """
    from zooming.lab.study import modules
    from zooming.lab.study.problems import problem_named, settings_from

    problem = problem_named(env, settings_from(set))
    made = problem.make()
    inner = find_compiled(made)
    if inner is None:
        raise ConfigurationError(
            f"{env} is not a compiled environment; write its dynamics with zooming.compiled_env"
        )
    own = getattr(inner, "rule", None)
    asked, name = own, "" if own is None else own.name
    if rule is not None:
        module, name = modules.split_id(rule)
        modules.import_named(module or "")
        asked = getattr(sys.modules[module or ""], name, None)
        if not callable(asked):
            raise ConfigurationError(f"--rule {rule}: {module} has no function {name!r}")
    columns = tuple(column for one in noise for column in one.split(",")) or None
    read = read_records(
        records, columns, episode=episode, step=step, by=by, censored=censored, context=context,
        dependent=dependent, bad=bad,
    )  # fmt: skip
    if columns is None and len(read.names) != inner.n_noise:
        raise ConfigurationError(
            f"{records}: the dynamics take {count_noun(inner.n_noise, 'column')} of noise, but no "
            f"other option names {', '.join(read.names)}; name the noise with --noise, and the "
            "columns of episodes and steps with --episode and --step"
        )
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)  # a wrong name is refused before the plan is made
    known = names or (made.metadata or {}).get("names")
    found = plan(with_records(inner, read), folds=folds, names=known, progress_bar=True)
    against = None if asked is None else found.compare(asked)
    found.save(folder / "plan.zoom")
    found.export(folder / "policy.py")
    found.show(folder / "policy.html")
    write_atomically(folder / "plan.json", json.dumps(_facts(found, against), indent=1).encode())
    write_atomically(folder / "plan.html", render(found, against, name, rules, records).encode())
    print(found)
    if against is not None:
        print(f"against the rule {name}: {against}")
    print(f"{folder / 'plan.html'}: open it in a browser")


def _facts(found: Plan, against: Comparison | None) -> dict[str, Any]:
    value = found.value
    facts: dict[str, Any] = {
        "environment": found.env_name, "records": found.records.hash,
        "episodes": len(found.returns), "value": value.mean, "low": value.low, "high": value.high,
        "in_sample": value.in_sample, "bound": None if math.isnan(value.bound) else value.bound,
        "warnings": found.warnings,
    }  # fmt: skip
    if against is not None:
        one = against.difference
        facts["rule"] = {"value": against.rule, "difference": [one.mean, one.low, one.high]}
    return facts


def render(found: Plan, against: Comparison | None, rule: str, n_rules: int, source: str) -> str:
    """Return the page. Every text is escaped, and the page loads nothing."""
    value, records = found.value, found.records

    def text(value: Any) -> str:
        return html.escape(printable(str(value), 2000))

    mean, low, high = plain_ends(value.mean, value.low, value.high)
    rows = [
        ("value out of sample", mean),
        ("its 95 % interval", f"{low} to {high}"),
        ("value in sample (too good)", plain(value.in_sample)),
        ("with perfect information (nobody earns more)", plain(value.bound)),
    ]
    if against is not None:
        rows += [
            (f"the rule: {rule}", plain(against.rule)),
            ("plan minus rule", str(against.difference)),
        ]
    table = "".join(f"<tr><td>{text(a)}</td><td>{text(b)}</td></tr>" for a, b in rows)
    doubts = "".join(f"<li class=warn>{text(one)}</li>" for one in found.warnings)
    explained = html.escape(str(found.explain(n_rules=n_rules, episodes=0)))
    changes = "".join(f"<li>{text(one)}</li>" for one in found.sensitivity())
    pictures = _picture("the policy", _draw_policy, found)
    pictures += _picture("the records", _draw_records, found)
    return notebook.page(
        f"Plan for {printable(found.env_name, 2000)}",
        f"<p>{text(records)} from {text(source)}, hash {records.hash}.</p>"
        f"<h2>What it earns</h2><table>{table}</table><ul>{doubts}</ul>"
        f"<h2>If something else is true</h2><ul>{changes}</ul>"
        f"<h2>Policy and records</h2>{pictures}<h2>Rules</h2><pre>{explained}</pre>"
        "<p>policy.html lets you move the state; policy.py runs without zooming.</p>",
    )


def _picture(what: str, draw: Any, found: Plan) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 3.2), dpi=130, layout="constrained")
    with drawing(figure.add_subplot()) as ax:
        draw(ax, found)
    return notebook.picture(figure, what)


def _draw_policy(ax: Any, found: Plan) -> None:
    """Draw the action over the first state axis, for up to six steps; others are in the middle."""
    env, names = found.env, found.axes.names
    n_state = env.state_box.shape[0]
    low, high = env.state_box.low, env.state_box.high
    states: Floats = np.tile((low + high) / 2, (201, 1))
    states[:, 0] = np.linspace(low[0], high[0], 201)
    if env.has_whole_states:
        states = np.unique(np.rint(states), axis=0)
    shown = np.unique(np.linspace(0, found.horizon - 1, min(found.horizon, 6)).astype(int))
    for i, step in enumerate(shown.tolist()):
        steps = np.full(len(states), step)
        actions = env.actions(found.predict(env.observations(states), steps)[0])
        ax.plot(states[:, 0], actions[:, 0], color=COLORS[i % len(COLORS)], label=f"step {step}")
    middle = ", the other axes in the middle" if n_state > 1 else ""
    ax.set(xlabel=f"{printable(names[0])}{middle}", ylabel=printable(names[n_state]))
    ax.legend()


def _draw_records(ax: Any, found: Plan) -> None:
    """Draw mean and the middle 80 % of the noise at each step."""
    values = found.records.cut(found.horizon)[0][:, :, 0]
    steps = np.arange(found.horizon)
    low, middle, high = np.nanquantile(values, [0.1, 0.5, 0.9], axis=0)
    ax.fill_between(steps, low, high, color=COLORS[0], alpha=0.18, label="middle 80 %")
    ax.plot(steps, middle, color=COLORS[0], label="median")
    ax.set(xlabel="step", ylabel=printable(found.records.names[0]))
    ax.legend()
