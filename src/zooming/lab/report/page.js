"use strict";
// What the pages with plots share. Strings of the data become text, never markup.
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
// Plotly reads a little markup in labels: written as entities, it shows them as they are.
const escapeHtml = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const DASHES = ["solid", "dash", "dashdot", "dot", "longdash", "longdashdot"];
const CONFIG = { displaylogo: false, displayModeBar: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };

function layout(x, y, more) {
  const axis = { gridcolor: "#e8ecf0", zeroline: false, linecolor: "#8a96a3", ticks: "outside", tickcolor: "#8a96a3", automargin: true };
  return {
    margin: { l: 56, r: 28, t: 8, b: 44 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12, color: "#1c2733" }, hovermode: "closest",
    showlegend: false,
    xaxis: { ...axis, title: { text: x, standoff: 8 } }, yaxis: { ...axis, title: { text: y, standoff: 8 } }, ...more,
  };
}

function element(tag, text, attributes) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  Object.assign(made, attributes || {});
  return made;
}

const fixed = (value, digits) => (Math.abs(value) < 0.5 * 10 ** -digits ? 0 : value).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });

function bounded(cell, bounds, digits, sign) {
  if (!bounds) { cell.textContent = "–"; return; }
  const half = (bounds[2] - bounds[1]) / 2;
  cell.append((sign && bounds[0] > 0 ? "+" : "") + fixed(bounds[0], digits));
  if (half > 0) cell.append(element("span", " ± " + fixed(half, digits), { className: "pm" }));
}

function banded(agent, i, x, band) {
  const line = { color: agent.color, dash: DASHES[i % DASHES.length], width: 2 };
  const edge = { mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false, x };
  return [
    { ...edge, y: band.low }, { ...edge, y: band.high, fill: "tonexty", fillcolor: agent.color + "30" },
    { x, y: band.mean, mode: "lines", name: escapeHtml(agent.name), line, hovertemplate: "%{x:,.0f}: %{y:.4g}<extra>" + escapeHtml(agent.name) + "</extra>" },
  ];
}
// Draws the page from the data in #data.
function summary() {
  const head = element("thead"), row = element("tr");
  const solved = data.problems.some((problem) => problem.optimum !== null), unsolved = data.problems.some((problem) => problem.optimum === null);
  const regrets = ["optimum", "regret"];
  const titles = ["agent", "final return", ...(solved ? regrets : []), ...(unsolved ? ["mean return"] : []), "advantage", "balls", "bytes", "ms a run"];
  for (const title of titles) row.append(element("th", title));
  head.append(row);
  const body = element("tbody");
  data.problems.forEach((problem, i) => {
    const title = element("tr", undefined, { className: "problem" }), name = element("td", undefined, { colSpan: titles.length });
    name.append(element("button", problem.name, { className: "problem-name", type: "button" }));
    title.append(name);
    body.append(title);
    title.addEventListener("click", () => { choose(i); at("problem").scrollIntoView({ behavior: "smooth" }); });
    problem.agents.forEach((agent) => {
      const row = element("tr");
      if (agent.is_winner) row.classList.add("best");
      const label = element("td"), swatch = element("span", "", { className: "swatch" });
      swatch.style.background = agent.color;
      label.append(swatch, agent.name);
      label.title = agent.label;
      row.append(label);
      const cell = (bounds, digits, className, sign) => { const made = element("td", undefined, { className }); bounded(made, bounds, digits, sign); row.append(made); };
      cell(agent.final_return, 3, "");
      if (solved) {
        row.append(element("td", problem.optimum === null ? "–" : fixed(problem.optimum, 3)));
        cell(agent.regret, 1, problem.optimum === null ? "" : "objective");
      }
      if (unsolved) cell(agent.mean_return, 3, problem.optimum === null ? "objective" : "");
      cell(agent.advantage, 3, "", true);
      row.append(element("td", fixed(agent.n_balls, 0)), element("td", fixed(agent.nbytes, 0)));
      row.append(element("td", agent.milliseconds === null ? "–" : fixed(agent.milliseconds, 1)));
      row.addEventListener("click", () => { choose(i); at("problem").scrollIntoView({ behavior: "smooth" }); });
      body.append(row);
    });
  });
  at("summary").append(head, body);
  at("score").textContent = data.score;
  at("score").hidden = !data.score;
  at("overall").replaceChildren(...data.overall.map(verdictLine));
  at("few-seeds").hidden = !data.few_seeds;
  at("overview-note").textContent =
    `Final return: mean of the last tenth of ${fixed(data.episodes, 0)} episodes. ± is half a 95 % interval over ${data.n_seeds} seeds. ` +
    (solved ? "Regret is the solved optimum minus the returns, added up: where there is chance it can be negative. Regret within the solver's error is 0. " : "") +
    (unsolved ? "Mean return: of all episodes, where no optimum is known to have regret against. " : "") +
    "The best is bold if the 95 % interval of its difference to each other agent, paired by seed, excludes 0. " +
    "The advantage is over a problem's first agent, per episode over all episodes, paired by seed. " +
    "Ms a run is the mean processor time of learning in the study.";
  const clipped = data.problems.flatMap((problem) => problem.agents.filter((agent) => agent.n_clipped)
    .map((agent) => `${problem.name}, ${agent.name}: ${agent.n_clipped.toLocaleString("en-US", { maximumFractionDigits: 1 })} rewards per run were clipped to the reward range.`));
  at("clipped").hidden = !clipped.length;
  at("clipped").textContent = clipped.join(" ");
}

const verdictLine = (verdict) =>
  element("li", verdict.sentence, { className: verdict.holds === true ? "yes" : verdict.holds === false ? "no" : "open" });

function returnTraces(problem) {
  const returns = problem.agents.flatMap((agent, i) => banded(agent, i, agent.curve.returns.episode, agent.curve.returns));
  if (problem.optimum !== null) {
    returns.push({ x: [0, data.episodes], y: [problem.optimum, problem.optimum], mode: "lines", name: "optimum", line: { color: "#595959", dash: "dot", width: 1.5 } });
  }
  return returns;
}

// Where an agent without balls, which does not learn, would set the axis of the regret: its end. Otherwise null.
function learnersTop(problem) {
  const top = (agents) => 1.12 * Math.max(0, ...agents.flatMap((agent) => agent.curve.objective.mean));
  const learners = top(problem.agents.filter((agent) => agent.n_balls > 0));
  return learners > 0 && top(problem.agents) > learners ? learners : null;
}

const regretTraces = (problem) => problem.agents.flatMap((agent, i) => banded(agent, i, agent.curve.episode, agent.curve.objective));

function curves(problem) {
  Plotly.react("returns", returnTraces(problem), layout("episode", "return"), CONFIG);
  const solved = problem.optimum !== null;
  const cut = solved ? learnersTop(problem) : null;
  const objective = solved ? "regret R(K)" : "mean return";
  at("unsolved").hidden = solved;
  at("unsolved").textContent = `The optimum of this problem is not known, so returns take the place of regret.`;
  at("regret-caption").textContent = solved ? "Regret R(K)" : "Mean return of all episodes so far";
  at("regret-note").hidden = !solved;
  at("regret-note").textContent = `Of the returns that were observed.${cut ? " The axis ends at the learners; a double click shows all." : ""}`;
  at("regret-log").parentElement.hidden = !solved;  // returns may be negative
  const logarithmic = solved && at("regret-log").checked ? { type: "log", dtick: 1 } : {};
  const shape = layout("episodes K", objective);
  Object.assign(shape.xaxis, logarithmic);
  Object.assign(shape.yaxis, logarithmic);
  if (cut && !logarithmic.type) shape.yaxis.range = [0, cut];
  Plotly.react("regret", regretTraces(problem), shape, CONFIG);
}

function legend(problem) {
  at("legend").replaceChildren(...entries(problem));
}

function entries(problem) {
  const named = problem.agents.map((agent, i) => [agent.name, agent.color, i]);
  if (problem.optimum !== null) named.push([`optimum ${fixed(problem.optimum, 3)}`, "#595959", 3]);
  return named.map(([name, color, i]) => {
    const entry = element("span", undefined, { className: "entry" });
    const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    picture.setAttribute("viewBox", "0 0 34 8");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const style = { x1: 0, x2: 34, y1: 4, y2: 4, stroke: color, "stroke-width": 2.5, "stroke-dasharray": ["", "9 5", "9 3 2 3", "2 3", "14 4", "14 3 2 3"][i % 6] };
    for (const [key, value] of Object.entries(style)) line.setAttribute(key, value);
    picture.append(line);
    entry.append(picture, name);
    return entry;
  });
}

let shown = 0;

function options(select, texts) {
  select.replaceChildren(...texts.map((text, i) => element("option", text, { value: String(i) })));
}

function choose(i) {
  shown = i;
  const problem = data.problems[i];
  at("problem-choice").value = String(i);
  at("problem-heading").textContent = problem.heading;
  at("problem-made-by").textContent = problem.made_by;
  at("verdicts").replaceChildren(...problem.verdicts.map(verdictLine));
  legend(problem);
  curves(problem);
}

summary();
options(at("problem-choice"), data.problems.map((problem) => problem.heading));
at("problem-choice").parentElement.hidden = data.problems.length < 2;
at("problem-choice").addEventListener("change", (event) => choose(Number(event.target.value)));
at("regret-log").addEventListener("change", () => curves(data.problems[shown]));
at("configuration").textContent = data.manifests.map((manifest) => JSON.stringify(manifest, null, 1)).join("\n");
choose(0);
