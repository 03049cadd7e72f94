// Draws the leaderboard from the data in #data.
const PLOTS = ["ranks", "curves", "finals"];
const FIRST_SHOWN = 3; // agents in the curves at first: the reference and those with the least regret
const number = new Map(data.agents.map((agent, i) => [agent.name, i]));
const agentOf = (name) => data.agents[number.get(name)];
const state = { episodes: data.episodes.at(-1), group: 0, problem: 0, shown: new Set() };
const dashOf = (i) => i + Math.floor(i / 12); // colors repeat after twelve: then the dash differs

function press(holder, labels, chosen, choose) {
  at(holder).replaceChildren(...labels.map((label, i) => {
    const button = element("button", label, { type: "button" });
    button.setAttribute("aria-pressed", String(i === chosen));
    button.addEventListener("click", () => choose(i));
    return button;
  }));
}

function row(cells, className) {
  const made = element("tr", undefined, { className: className || "" });
  made.append(...cells);
  return made;
}

function head(titles) {
  const made = element("thead");
  made.append(row(titles.map((title) => element("th", title))));
  return made;
}

function named(name) {
  const cell = element("td"), swatch = element("span", "", { className: "swatch" });
  swatch.style.background = agentOf(name).color;
  cell.append(swatch, name);
  if (agentOf(name).is_rival) cell.append(element("span", "rival", { className: "tag" }));
  return cell;
}

function measured(bounds, digits, sign) {
  const cell = element("td");
  bounded(cell, bounds, digits, sign);
  return cell;
}

// The difference in regret to the reference: whether it wins or loses, where the interval excludes 0.
function against(bounds) {
  const cell = measured(bounds, 1, true);
  if (bounds && bounds[1] > 0) cell.classList.add("wins");
  if (bounds && bounds[2] < 0) cell.classList.add("loses");
  return cell;
}

const rowClass = (name) => (name === data.reference ? "reference" : "");
const seconds = (value) => element("td", value === null ? "–" : Number(value.toPrecision(3)).toLocaleString("en-US", { maximumFractionDigits: 6 }));

function rank(bounds) {
  const cell = element("td");
  if (!bounds) { cell.textContent = "–"; return cell; }
  cell.append(fixed(bounds[0], 1), element("span", ` (${fixed(bounds[1], 1)} to ${fixed(bounds[2], 1)})`, { className: "pm" }));
  return cell;
}

function overall() {
  const group = data.groups[state.group], found = group.standings[state.episodes];
  at("overall-heading").textContent = `${group.title}, ${fixed(state.episodes, 0)} episodes`;
  press("groups", data.groups.map((one) => one.title), state.group, (i) => { state.group = i; overall(); });
  at("groups").hidden = data.groups.length < 2;
  const body = element("tbody");
  body.append(...found.map((one) => row([
    named(one.agent), element("td", one.n_problems === group.n_problems ? "all" : `${one.n_problems} of ${group.n_problems}`),
    measured(one.loss, 1), rank(one.rank_loss), measured(one.percent, 1), rank(one.rank_percent),
    element("td", one.record || "–"), seconds(one.cpu_seconds), element("td", fixed(one.nbytes / 1000, 0)),
  ], rowClass(one.agent))));
  const titles = ["agent", "problems", "loss, %", "rank by loss", "final policy, %", "rank by policy", `${data.reference} better / level / worse`, "CPU s", "kB"];
  at("standings").replaceChildren(head(titles), body);
  at("standings-note").textContent = "Sorted by loss, the regret per episode: less is better.";
  drawRanks(found);
}

function dots(id, entries, x, more) {
  const flipped = [...entries].reverse();
  const trace = {
    x: flipped.map((one) => one.bounds[0]), y: flipped.map((one) => escapeHtml(one.agent)), type: "scatter", mode: "markers",
    marker: { size: 9, color: flipped.map((one) => agentOf(one.agent).color) }, hovertemplate: "%{y}: %{x:.2f}<extra></extra>",
    error_x: { type: "data", symmetric: false, thickness: 1.5, color: "#5b6875",
      array: flipped.map((one) => one.bounds[2] - one.bounds[0]), arrayminus: flipped.map((one) => one.bounds[0] - one.bounds[1]) },
  };
  const made = layout(x, "", more);
  made.margin = { ...made.margin, l: 10 };
  made.yaxis = { ...made.yaxis, type: "category" };
  Plotly.react(id, [trace], made, CONFIG);
}

function drawRanks(found) {
  dots("ranks", found.filter((one) => one.rank_loss).map((one) => ({ agent: one.agent, bounds: one.rank_loss })), "mean rank, 1 is best");
}

function lost() {
  const found = data.losses[state.episodes];
  at("lost-heading").textContent = `Where ${data.reference} loses, ${fixed(state.episodes, 0)} episodes`;
  const lines = found.map((sentence) => element("li", sentence, { className: "no" }));
  if (!lines.length) lines.push(element("li", "No agent has less regret on any problem, at the 95 % level.", { className: "yes" }));
  at("losses").replaceChildren(...lines);
  at("lost-note").textContent = data.known[state.episodes];
}

function problem() {
  const ours = data.problems[state.problem], cells = ours.cells[state.episodes];
  at("problem-heading").textContent = `${ours.name}, ${fixed(state.episodes, 0)} episodes`;
  at("problem-choice").value = String(state.problem);
  at("problem-scale").textContent = `${ours.about} Optimum ${Number(ours.optimum.toPrecision(5))} (within ${fixed(ours.error, 1)} % of the gain), random actions ${Number(ours.random.toPrecision(5))}.`;
  const body = element("tbody");
  body.append(...cells.map((one) => row([
    named(one.agent), measured(one.regret, 1), against(one.against), measured(one.percent, 1),
    element("td", one.reached === null ? "–" : fixed(one.reached, 0)), seconds(one.cpu_seconds), element("td", fixed(one.nbytes, 0)), element("td", one.n_seeds),
    element("td", one.settings),
  ], rowClass(one.agent))));
  at("cells").replaceChildren(head(["agent", "regret", `minus ${data.reference}`, "final policy, %", "after", "CPU s", "bytes", "seeds", "settings"]), body);
  at("empty").replaceChildren(...ours.empty.map((line) => element("li", line)));
  chips(cells);
  curves(cells);
  dots("finals", cells.map((one) => ({ agent: one.agent, bounds: one.percent })), "% of the gain");
}

function chips(cells) {
  at("chips").replaceChildren(...cells.map((one) => {
    const button = element("button", undefined, { type: "button" }), i = number.get(one.agent);
    const sample = document.createElementNS("http://www.w3.org/2000/svg", "svg"), line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const lengths = { solid: "", dash: "7 4", dashdot: "7 3 2 3", dot: "2 3", longdash: "11 4", longdashdot: "11 3 2 3" };
    for (const [key, value] of Object.entries({ x1: 0, x2: 26, y1: 4, y2: 4, stroke: agentOf(one.agent).color, "stroke-width": 2.5, "stroke-dasharray": lengths[DASHES[dashOf(i) % DASHES.length]] })) line.setAttribute(key, value);
    sample.append(line);
    button.append(sample, one.agent);
    button.setAttribute("aria-pressed", String(state.shown.has(one.agent)));
    button.addEventListener("click", () => {
      if (!state.shown.delete(one.agent)) state.shown.add(one.agent);
      button.setAttribute("aria-pressed", String(state.shown.has(one.agent)));
      curves(cells);
    });
    return button;
  }));
}

function curves(cells) {
  const traces = cells.filter((one) => state.shown.has(one.agent)).flatMap((one) => banded(agentOf(one.agent), dashOf(number.get(one.agent)), one.curve.episode, one.curve));
  const isLog = at("curves-log").checked, ends = [isLog ? 1 : 0, state.episodes];
  traces.push({ x: ends, y: [100, 100], mode: "lines", name: "optimum", hoverinfo: "name", line: { color: "#595959", dash: "dot", width: 1.5 } });
  const made = layout("episode", "% of the gain");
  const means = traces.filter((one) => one.name).flatMap((one) => one.y);
  made.yaxis.range = [Math.min(0, ...means) - 5, Math.max(100, ...means) + 5]; // bands may go beyond
  if (isLog) made.xaxis.type = "log";
  Plotly.react("curves", traces, made, CONFIG);
}

function firstShown() {
  const cells = data.problems[state.problem].cells[state.episodes];
  state.shown = new Set([data.reference, ...cells.slice(0, FIRST_SHOWN).map((one) => one.agent)]);
}

function chooseEpisodes(i) {
  state.episodes = data.episodes[i];
  press("episodes", data.episodes.map((count) => fixed(count, 0)), i, chooseEpisodes);
  overall();
  lost();
  problem();
}

function chooseProblem(i) {
  state.problem = i;
  firstShown();
  problem();
}

at("problem-choice").append(...data.problems.map((one, i) => element("option", one.name, { value: String(i) })));
at("problem-choice").addEventListener("change", (event) => chooseProblem(Number(event.target.value)));
at("curves-log").addEventListener("change", () => problem());
at("absent").append(...data.absent.map((line) => element("li", "Left out: " + line)));
firstShown();
chooseEpisodes(data.episodes.length - 1);
