"use strict";
// Draws the page from the data in #data. Strings of the data become text, never markup.
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
// Plotly reads a little markup in labels: written as entities, it shows them as they are.
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const DASHES = ["solid", "dash", "dashdot", "dot", "longdash", "longdashdot"];
const SYMBOLS = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross"];
const CONFIG = { displaylogo: false, displayModeBar: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };

function layout(x, y, more) {
  const axis = { gridcolor: "#e8ecf0", zeroline: false, linecolor: "#8a96a3", ticks: "outside", tickcolor: "#8a96a3", automargin: true };
  return {
    margin: { l: 56, r: 12, t: 8, b: 44 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
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

function summary() {
  const head = element("thead"), row = element("tr");
  for (const title of ["agent", "final return", "optimum", "regret", "advantage", "balls", "bytes", "ms a run"]) row.append(element("th", title));
  head.append(row);
  const body = element("tbody");
  data.problems.forEach((problem, i) => {
    const regrets = problem.agents.map((agent) => (agent.regret ? agent.regret[0] : Infinity));
    const title = element("tr", undefined, { className: "problem" }), name = element("td", undefined, { colSpan: 8 });
    name.append(element("button", problem.name, { className: "problem-name", type: "button" }));
    title.append(name);
    body.append(title);
    title.addEventListener("click", () => { choose(i); at("problem").scrollIntoView({ behavior: "smooth" }); });
    problem.agents.forEach((agent) => {
      const row = element("tr");
      if (agent.regret && agent.regret[0] === Math.min(...regrets)) row.classList.add("best");
      const label = element("td"), swatch = element("span", "", { className: "swatch" });
      swatch.style.background = agent.color;
      label.append(swatch, agent.name);
      label.title = agent.label;
      const cells = [element("td"), element("td"), element("td", undefined, { className: "regret" }), element("td")];
      bounded(cells[0], agent.final_return, 3);
      cells[1].textContent = problem.optimum === null ? "–" : fixed(problem.optimum, 3);
      bounded(cells[2], agent.regret, 1);
      bounded(cells[3], agent.advantage, 3, true);
      row.append(label, ...cells, element("td", fixed(agent.n_balls, 0)), element("td", fixed(agent.nbytes, 0)));
      row.append(element("td", agent.milliseconds === null ? "–" : fixed(agent.milliseconds, 1)));
      row.addEventListener("click", () => { choose(i); at("problem").scrollIntoView({ behavior: "smooth" }); });
      body.append(row);
    });
  });
  at("summary").append(head, body);
  at("few-seeds").hidden = !data.few_seeds;
  at("overview-note").textContent =
    `Final return: mean of the last tenth of ${fixed(data.episodes, 0)} episodes. ± is half a 95 % interval over ${data.n_seeds} seeds. ` +
    "Regret is against the solved optimum; the least is bold. The advantage is over a problem's first agent, per episode over all episodes, paired by seed.";
}

function banded(agent, i, x, band) {
  const line = { color: agent.color, dash: DASHES[i % DASHES.length], width: 2 };
  const edge = { mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false, x };
  return [
    { ...edge, y: band.low }, { ...edge, y: band.high, fill: "tonexty", fillcolor: agent.color + "30" },
    { x, y: band.mean, mode: "lines", name: plain(agent.name), line, hovertemplate: "%{x:,.0f}: %{y:.4g}<extra>" + plain(agent.name) + "</extra>" },
  ];
}

function empty(id, text) {
  Plotly.purge(at(id));
  at(id).classList.add("empty");
  at(id).textContent = text;
}

function draw(id, traces, shape) {
  if (at(id).classList.contains("empty")) { at(id).classList.remove("empty"); at(id).textContent = ""; }
  return Plotly.react(id, traces, shape, CONFIG);
}

function curves(problem) {
  const returns = problem.agents.flatMap((agent, i) => banded(agent, i, agent.curve.returns.episode, agent.curve.returns));
  if (problem.optimum !== null) {
    returns.push({ x: [0, data.episodes], y: [problem.optimum, problem.optimum], mode: "lines", name: "optimum", line: { color: "#595959", dash: "dot", width: 1.5 } });
  }
  draw("returns", returns, layout("episode", "return"));
  const solved = problem.agents.filter((agent) => agent.curve.regret);
  if (!solved.length) {
    empty("regret", "The optimum of this problem is not known, so there is no regret.");
    empty("memory", "The optimum of this problem is not known, so there is no regret.");
    return;
  }
  const regrets = problem.agents.flatMap((agent, i) => banded(agent, i, agent.curve.episode, agent.curve.regret));
  const kind = at("regret-log").checked ? { type: "log", dtick: 1 } : {};
  const shape = layout("episodes K", "regret R(K)");
  Object.assign(shape.xaxis, kind);
  Object.assign(shape.yaxis, kind);
  draw("regret", regrets, shape);
  const points = problem.agents.map((agent, i) => ({
    x: agent.seeds.map((seed) => seed[0]), y: agent.seeds.map((seed) => seed[1]), mode: "markers", name: plain(agent.name),
    marker: { color: agent.color, symbol: SYMBOLS[i % SYMBOLS.length], size: 7, opacity: 0.65 },
    hovertemplate: "%{x:,} balls, regret %{y:,.1f}<extra>" + plain(agent.name) + "</extra>",
  }));
  draw("memory", points, layout("active balls at the end", "regret R(K)"));
}

function legend(problem) {
  const entries = problem.agents.map((agent, i) => [agent.name, agent.color, i]);
  if (problem.optimum !== null) entries.push([`optimum ${fixed(problem.optimum, 3)}`, "#595959", 3]);
  at("legend").replaceChildren(...entries.map(([name, color, i]) => {
    const entry = element("span", undefined, { className: "entry" });
    const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    picture.setAttribute("viewBox", "0 0 34 8");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const style = { x1: 0, x2: 34, y1: 4, y2: 4, stroke: color, "stroke-width": 2.5, "stroke-dasharray": ["", "9 5", "9 3 2 3", "2 3", "14 4", "14 3 2 3"][i % 6] };
    for (const [key, value] of Object.entries(style)) line.setAttribute(key, value);
    picture.append(line);
    entry.append(picture, name);
    return entry;
  }));
}

let shown = 0, timer = null;

function borders(balls, frame) {
  const x = [], y = [];
  let n = 0;
  for (const [x0, y0, x1, y1, birth, death] of balls) {
    if (birth > frame || death < frame) continue;
    x.push(x0, x1, x1, x0, x0, null);
    y.push(y0, y0, y1, y1, y0, null);
    n += 1;
  }
  return { x, y, n };
}

function replay() {
  const problem = data.problems[shown], agent = problem.replays[at("replay-agent").value], step = Number(at("replay-step").value);
  const frame = Number(at("replay-frame").value), lines = borders(agent.steps[step], frame);
  const cut = agent.is_cut && frame === agent.frames.length - 1 ? "; later there are too many to show" : "";
  at("replay-caption").textContent = `episode ${agent.frames[frame].toLocaleString("en-US")}: ${lines.n} balls${cut}`;
  const over = { x: lines.x, y: lines.y, mode: "lines", line: { color: "#000000", width: 1 }, hoverinfo: "skip", showlegend: false };
  const traces = [];
  if (problem.q_star) {
    traces.push({ type: "heatmap", x: problem.q_star.state, y: problem.q_star.action, z: problem.q_star.steps[step], colorscale: "Viridis", zsmooth: "best",
      colorbar: { title: { text: "Q*", side: "top" }, thickness: 12, outlinewidth: 0 }, hovertemplate: "state %{x:.3f}, action %{y:.3f}: Q* %{z:.3f}<extra></extra>" });
  }
  traces.push(over);
  const all = agent.steps[step], range = (k) => [Math.min(...all.map((ball) => ball[k])), Math.max(...all.map((ball) => ball[k + 2]))];
  const shape = layout("state", "action", { margin: { l: 52, r: 8, t: 8, b: 44 } });
  Object.assign(shape.xaxis, { range: range(0), showgrid: false, constrain: "domain" });
  Object.assign(shape.yaxis, { range: range(1), showgrid: false });
  return draw("replay", traces, shape);
}

function stop() {
  clearInterval(timer);
  timer = null;
  at("replay-play").textContent = "Play";
}

function play() {
  if (timer !== null) { stop(); return; }
  const slider = at("replay-frame");
  if (Number(slider.value) === Number(slider.max)) slider.value = 0;
  at("replay-play").textContent = "Pause";
  timer = setInterval(() => {
    if (Number(slider.value) >= Number(slider.max)) { stop(); return; }
    slider.value = Number(slider.value) + 1;
    replay();
  }, 140);
}

function options(select, texts) {
  select.replaceChildren(...texts.map((text, i) => element("option", text, { value: String(i) })));
}

function replays(problem) {
  stop();
  at("replay-card").hidden = !problem.replays.length;
  if (!problem.replays.length) return;
  options(at("replay-agent"), problem.replays.map((agent) => agent.name));
  options(at("replay-step"), problem.replays[0].steps.map((_, step) => String(step)));
  at("replay-step").value = String(Math.min(1, problem.replays[0].steps.length - 1));
  rewound();
}

function rewound() {
  const agent = data.problems[shown].replays[at("replay-agent").value];
  at("replay-frame").max = agent.frames.length - 1;
  at("replay-frame").value = agent.frames.length - 1;
  replay();
}

function choose(i) {
  shown = i;
  const problem = data.problems[i];
  at("problem-choice").value = String(i);
  at("problem-heading").textContent = problem.heading;
  at("problem-made-by").textContent = problem.made_by;
  at("verdicts").replaceChildren(...problem.verdicts.map((verdict) =>
    element("li", verdict.sentence, { className: verdict.holds === true ? "yes" : verdict.holds === false ? "no" : "open" })));
  legend(problem);
  curves(problem);
  replays(problem);
}

summary();
options(at("problem-choice"), data.problems.map((problem) => problem.heading));
at("problem-choice").parentElement.hidden = data.problems.length < 2;
at("problem-choice").addEventListener("change", (event) => choose(Number(event.target.value)));
for (const id of ["replay-step", "replay-frame"]) at(id).addEventListener("input", replay);
at("replay-agent").addEventListener("input", rewound);
at("replay-play").addEventListener("click", play);
at("regret-log").addEventListener("change", () => curves(data.problems[shown]));
at("configuration").textContent = data.manifests.map((manifest) => JSON.stringify(manifest, null, 1)).join("\n");
choose(0);
