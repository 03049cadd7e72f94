"""The command `zooming plan`: a plan from an environment and a file of records, with one page."""

from __future__ import annotations

import html
import json
import math
from pathlib import Path
from typing import Annotated, Any

import tyro

from zooming.agents.files.container import write_atomically
from zooming.analysis.plan import Comparison, Plan, plan
from zooming.envs.compiled import find_compiled
from zooming.envs.declared import with_records
from zooming.errors import ConfigurationError
from zooming.logs.noise import read_records
from zooming.spaces.names import printable

STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#222}pre{background:#f6f6f6;padding:.8rem;overflow:auto;white-space:pre-wrap}"
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def plan_records(
    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")],
    records: Annotated[str, tyro.conf.arg(metavar="FILE")],
    noise: tuple[str, ...],
    out: Annotated[str, tyro.conf.arg(metavar="FOLDER")] = "plan",
    episode: str | None = None,
    step: str | None = None,
    by: str | None = None,
    censored: str | None = None,
    dependent: bool = False,
    bad: str = "refuse",
    folds: int = 10,
    rules: int = 6,
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE")] = (),
) -> None:
    """Plan with the equations of an environment and records of its noise, and write one page.

    Args:
        env: a preset, a Gymnasium id, or module:Id of your own, as for zooming run. Its dynamics
            take an outcome; its own law is not used.
        records: .csv or .parquet file.
        noise: columns of noise, as many as the dynamics take.
        out: folder for plan.html, policy.html, plan.zoom, policy.py and plan.json.
        episode: column that names the episode.
        step: column with the step of the episode, from 0.
        by: column with the season of a step.
        censored: column that is 1 where the noise was at least the value.
        dependent: whether noise depends on earlier noise, so that episodes are kept whole.
        bad: refuse or skip rows with faults.
        folds: parts of the records for the value out of sample.
        rules: most rules a step on the page.
        set: options of the environment.
    """
    from zooming.lab.study.problems import problem_named, settings_from

    problem = problem_named(env, settings_from(set))
    made = problem.make()
    inner = find_compiled(made)
    if inner is None:
        raise ConfigurationError(
            f"{env} is not a compiled environment; write its dynamics with zooming.compiled_env"
        )
    read = read_records(
        records, noise, episode=episode, step=step, by=by, censored=censored, dependent=dependent,
        bad=bad,
    )  # fmt: skip
    found = plan(with_records(inner, read), folds=folds, progress_bar=True)
    rule = getattr(inner, "rule", None)
    against = None if rule is None else found.compare(rule)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    found.save(folder / "plan.zoom")
    found.export(folder / "policy.py")
    found.show(folder / "policy.html")
    write_atomically(folder / "plan.json", json.dumps(_facts(found, against), indent=1).encode())
    said = "" if rule is None else f"against the rule {rule.name}: {against}"
    write_atomically(folder / "plan.html", render(found, records, said, rules).encode())
    print(found)
    if said:
        print(said)
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


def render(found: Plan, source: str, against: str, n_rules: int) -> str:
    """Return the page. Every text is escaped, and the page loads nothing."""
    rules = found.explain(0, n_rules=n_rules, episodes=0)
    title = f"Plan for {found.env_name}"
    changes = "\n".join(map(str, found.sensitivity()))
    parts = {
        f"{found.records} from {source}, hash {found.records.hash}": f"{found}\n{against}",
        "If something else is true": changes,
        "Rules of step 0": str(rules),
        "More": "policy.html lets you move the state; policy.py runs without zooming.",
    }

    def text(value: str) -> str:
        return "\n".join(html.escape(printable(line, 2000)) for line in value.splitlines())

    body = "".join(f"<h2>{text(head)}</h2><pre>{text(part)}</pre>" for head, part in parts.items())
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(POLICY)}">'
        f"<title>{text(title)}</title><style>{STYLE}</style><h1>{text(title)}</h1>{body}</html>\n"
    )
