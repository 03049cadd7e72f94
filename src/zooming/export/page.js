"use strict";
const DATA = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const N_STATE = DATA.state.length;
const MOST_ROWS = 10;
const STOPS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
for (const cells of DATA.steps) { // steps may share corners
  Object.assign(cells, DATA.corners[cells.corners]);
  if (cells.balls) Object.assign(cells.balls, DATA.corners[cells.balls.corners]);
}
let step = 0;
let x = DATA.start.slice();
let episode = DATA.episodes.length ? 0 : -1; // -1: the state was moved by hand
let place = 0;
let mapArea = null; // where the map was drawn last

// --- what the policy says --------------------------------------------------------------------

function text(value) { // at least four digits, and no exponent
  const size = Math.abs(value);
  if (size < 1e-12) return "0";
  if (size < 1e-5 || size >= 1e15) return value.toPrecision(4);
  const places = Math.max(0, 3 - Math.floor(Math.log10(size)));
  return value.toLocaleString("en", {maximumFractionDigits: places});
}

function holds(low, high, point) {
  return point.every((value, i) =>
    (low[i] === null || value >= low[i]) && (high[i] === null || value < high[i]));
}

function cellAt(h, point) {
  const cells = DATA.steps[h];
  return cells.low.findIndex((low, k) => holds(low, cells.high[k], point));
}

// The action of a policy that interpolates, as docs/export.md defines it for the form "grid".
function interpolated(h, state) {
  const p = DATA.policy, values = state.slice(), bins = [], units = [];
  for (const [i, origin, scale, offset, gain] of p.squash || []) {
    const z = (values[i] - origin) / scale;
    values[i] = offset + gain * (z / (1 + Math.abs(z)));
  }
  let cell = 0;
  values.forEach((value, j) => {
    const first = p.first[j], last = p.first[j + 1], u = (value - p.low[j]) / p.width[j];
    let bin = first;
    while (bin + 1 < last && u >= p.border[bin + 1]) bin += 1;
    cell = cell * (last - first) + bin - first;
    bins.push(bin);
    units.push(u);
  });
  const [own, ...others] = p.pieces[p.cells[p.plan[h]][cell]];
  return p.points[own].map((start, k) => {
    let point = start;
    for (let j = N_STATE - 1; j >= 0; j -= 1) {
      const away = units[j] - p.center[bins[j]], side = away > 0 ? 1 : 0;
      const there = others[2 * j + side];
      if (!p.is_mixed[k] || there === own) continue;
      const gap = Math.abs(p.center[bins[j] + 2 * side - 1] - p.center[bins[j]]);
      point += Math.abs(away) / gap * (p.points[there][k] - start);
    }
    point = Math.min(p.point_high[k], Math.max(p.point_low[k], point));
    let value = p.action_low[k] + point * p.action_width[k];
    const n = p.n_values ? p.n_values[k] : 0;
    if (n) value = p.action_low[k] + 0.5 + Math.min(n - 1, Math.floor(point * n));
    for (const [i, origin, scale, offset, gain] of p.action_squash || []) {
      const share = (value - offset) / gain;
      if (i === k) value = origin + share / Math.max(1 - Math.abs(share), 1e-6) * scale;
    }
    if (p.action_least) value = Math.min(p.action_most[k], Math.max(p.action_least[k], value));
    return p.is_single && p.is_single[k] ? Math.fround(value) : value;
  });
}

function ballsAt(h, point) {
  const balls = DATA.steps[h].balls;
  if (balls === null) return [];
  const found = [];
  balls.low.forEach((low, k) => {
    if (holds(low.slice(0, N_STATE), balls.high[k].slice(0, N_STATE), point)) {
      found.push({low: low.slice(N_STATE), high: balls.high[k].slice(N_STATE), q: balls.q[k],
        visits: balls.visits[k], density: balls.density[k]});
    }
  });
  return found;
}

function contains(ball, action) {
  return action.every((a, i) => (ball.low[i] === null || a >= ball.low[i]) &&
    (ball.high[i] === null || a <= ball.high[i]));
}

function howSure(visits, share, isUnseen) {
  if (visits === null) return "unknown";
  if (isUnseen) return "unvisited: nothing shows that this state occurs at this step";
  if (visits < 10) return "a guess: under 10 visits";
  if (share === null) return "likely";
  const part = Math.round(100 * share) + " % of the visits of this state";
  return (share < 0.25 ? "unsure: " : share < 0.5 ? "likely: " : "sure: ") + part;
}

function range(ball) {
  return ball.low.map((low, i) => {
    const high = ball.high[i];
    if (DATA.action[i].is_whole) {
      const first = Math.ceil(low), last = Math.ceil(high) - 1;
      return first === last ? String(first) : first + " to " + last;
    }
    return (low === null ? "" : text(low)) + " to " + (high === null ? "" : text(high));
  });
}

// --- pictures --------------------------------------------------------------------------------

function shade(share) {
  const place = Math.min(0.9999, Math.max(0, share)) * (STOPS.length - 1);
  const k = Math.floor(place);
  return "rgb(" + STOPS[k].map((a, i) => Math.round(a + (place - k) * (STOPS[k + 1][i] - a)))
    .join(",") + ")";
}

function spanOf(values, isWhole = false, ends = null) {
  const low = Math.min(...values), high = Math.max(...values);
  if (low === high && !isWhole && ends) return spanOf(ends);
  const margin = high > low && !isWhole ? 0.06 * (high - low) : 0.5; // an integer covers 1/2
  return [low - margin, high + margin];
}

function brush(canvas, spans) { // room for the labels of the vertical axis is on the left
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = width * canvas.dataset.height / canvas.dataset.width;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.clearRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif";
  const area = {pen, width, right: width - 8, top: 8, bottom: height - 34};
  area.across = ticks(...spans[0], Math.max(2, Math.floor(width / 70)));
  area.up = ticks(...spans[1], Math.max(2, Math.floor((area.bottom - area.top) / 32)));
  area.left = 26 + Math.ceil(Math.max(...area.up.map((value) => pen.measureText(tickText(value)).width)));
  return area;
}

function ticks(low, high, isWhole, most) { // round numbers from `low` to `high`
  if (!(high > low)) return [low];
  let by = isWhole ? 1 : 10 ** Math.floor(Math.log10((high - low) / most));
  for (let k = 0; (high - low) / by > most && k < 60; k += 1) by *= k % 3 === 1 ? 2.5 : 2;
  const found = [];
  for (let k = Math.ceil(low / by); k * by <= high; k += 1) found.push(Number((k * by).toPrecision(12)));
  return found.length < 2 && !isWhole ? ticks(low, high, isWhole, 2 * most) : found;
}

function tickText(value) {
  return value !== 0 && Math.abs(value) < 1e-4 ? text(value)
    : value.toLocaleString("en", {maximumSignificantDigits: 6});
}

function shortened(pen, name, width) {
  let shown = name;
  while (shown && pen.measureText(shown + "…").width > width) shown = shown.slice(0, -1);
  return pen.measureText(name).width <= width ? name : shown + "…";
}

function mapped(value, low, high, first, last) {
  return first + (value - low) / (high - low || 1) * (last - first);
}

function frame(area, names, spans) {
  const {pen, left, right, top, bottom} = area;
  pen.strokeStyle = "#555";
  pen.lineWidth = 1;
  pen.strokeRect(left, top, right - left, bottom - top);
  pen.fillStyle = "#555";
  pen.beginPath();
  pen.textAlign = "center";
  for (const value of area.across) {
    const px = mapped(value, ...spans[0], left, right), shown = tickText(value);
    const half = pen.measureText(shown).width / 2;
    pen.moveTo(px, bottom);
    pen.lineTo(px, bottom + 4);
    pen.fillText(shown, Math.min(px, area.width - half), bottom + 16);
  }
  pen.fillText(shortened(pen, names[0], right - left), (left + right) / 2, bottom + 30);
  pen.textAlign = "right";
  for (const value of area.up) {
    const py = mapped(value, ...spans[1], bottom, top);
    pen.moveTo(left - 4, py);
    pen.lineTo(left, py);
    pen.fillText(tickText(value), left - 6, Math.max(top + 8, py + 4));
  }
  pen.stroke();
  pen.textAlign = "center";
  pen.save();
  pen.translate(12, (top + bottom) / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(shortened(pen, names[1], bottom - top), 0, 0);
  pen.restore();
}

function reach(i) { // of a state axis; an integer covers 1/2 to each side
  const axis = DATA.state[i], half = axis.is_whole ? 0.5 : 0;
  return [axis.low - half, axis.high + half];
}

function hatch(pen) { // for states that never occurred
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const line = tile.getContext("2d");
  line.fillStyle = "rgba(255,255,255,0.72)";
  if (N_STATE > 1) line.fillRect(0, 0, 8, 8);
  line.strokeStyle = "#777";
  line.beginPath();
  for (const x0 of [-8, 0, 8]) { line.moveTo(x0, 8); line.lineTo(x0 + 8, 0); }
  line.stroke();
  return pen.createPattern(tile, "repeat");
}

function drawMap() {
  const cells = DATA.steps[step], action = DATA.action[0];
  const played = cells.action.map((one) => one[0]);
  const ends = action.values ? action.values : played; // few values are all drawn
  const actions = spanOf(ends, action.is_whole, action.ends);
  const across = reach(0), up = N_STATE === 1 ? actions : reach(1);
  const areWhole = [DATA.state[0].is_whole, N_STATE === 1 ? action.is_whole : DATA.state[1].is_whole];
  const area = brush(at("map"), [[...across, areWhole[0]], [...up, areWhole[1]]]);
  const {pen, left, right, top, bottom} = area;
  mapArea = area;
  const toX = (value) => mapped(value, ...across, left, right);
  const side = (value, fallback) => value === null ? fallback : value;
  const toY = (value) => mapped(value, ...up, bottom, top);
  if (DATA.policy) drawMixed(area, actions);
  const unseen = hatch(pen);
  let anyUnseen = false;
  cells.low.forEach((low, k) => {
    const high = cells.high[k];
    if (!holds(low.slice(2), high.slice(2), x.slice(2))) return;
    const x0 = toX(Math.max(across[0], side(low[0], across[0])));
    const x1 = toX(Math.min(across[1], side(high[0], across[1])));
    const y0 = N_STATE === 1 ? bottom : toY(Math.max(up[0], side(low[1], up[0])));
    const y1 = N_STATE === 1 ? top : toY(Math.min(up[1], side(high[1], up[1])));
    if (N_STATE === 1 && !DATA.policy) {
      pen.fillStyle = "#0072b2";
      pen.fillRect(x0, toY(cells.action[k][0]) - 1.5, x1 - x0 + 0.5, 3);
    } else if (!DATA.policy) {
      pen.fillStyle = shade(mapped(cells.action[k][0], ...actions, 0, 1));
      pen.fillRect(x0, y1, x1 - x0 + 0.5, y0 - y1 + 0.5);
    }
    if (!cells.unseen || !cells.unseen[k]) return;
    anyUnseen = true;
    pen.fillStyle = unseen;
    pen.fillRect(x0, y1, x1 - x0 + 0.5, y0 - y1 + 0.5);
  });
  pen.beginPath();
  if (N_STATE === 1) {
    pen.moveTo(toX(x[0]), top);
    pen.lineTo(toX(x[0]), bottom);
  } else {
    pen.arc(toX(x[0]), toY(x[1]), 6, 0, 7);
  }
  for (const [color, width] of [["#fff", N_STATE === 1 ? 0 : 5], ["#d55e00", 2]]) { // on any color
    if (!width) continue;
    pen.strokeStyle = color;
    pen.lineWidth = width;
    pen.stroke();
  }
  const name = N_STATE === 1 ? action.name : DATA.state[1].name;
  frame(area, [DATA.state[0].name, name], [across, up]);
  const key = N_STATE === 1 ? "" : "Color: " + action.name + " from " + text(Math.min(...ends)) +
    " (dark) to " + text(Math.max(...ends)) + " (light). ";
  at("map-caption").textContent = key +
    (anyUnseen ? "Hatched: states that never occurred at this step. " : "") + "Click, or focus it and use the arrow keys.";
}

function drawMixed({pen, left, right, top, bottom}, actions) { // a policy that interpolates
  const by = N_STATE === 1 ? 1 : 3, point = x.slice();
  pen.strokeStyle = "#0072b2";
  pen.lineWidth = 2.5;
  pen.beginPath();
  for (let px = left; px <= right; px += by) {
    point[0] = snapped(0, mapped(px, left, right, ...reach(0)));
    for (let py = top; N_STATE > 1 && py < bottom; py += by) {
      point[1] = snapped(1, mapped(py, bottom, top, ...reach(1)));
      pen.fillStyle = shade(mapped(interpolated(step, point)[0], ...actions, 0, 1));
      pen.fillRect(px, py, Math.min(by, right - px), Math.min(by, bottom - py));
    }
    if (N_STATE === 1) pen.lineTo(px, mapped(interpolated(step, point)[0], ...actions, bottom, top));
  }
  pen.stroke();
}

function drawBars(balls, chosen) {
  const canvas = at("bars");
  canvas.hidden = DATA.action.length > 1 || // an infinite end cannot be drawn
    balls.some((ball) => ball.low[0] === null || ball.high[0] === null);
  if (canvas.hidden) return;
  const across = [Math.min(...balls.map((ball) => ball.low[0])),
    Math.max(...balls.map((ball) => ball.high[0]))];
  const up = spanOf(balls.map((ball) => ball.q));
  const area = brush(canvas, [[...across, DATA.action[0].is_whole], [...up, false]]);
  const {pen, left, right, top, bottom} = area;
  for (const ball of balls) {
    const x0 = mapped(ball.low[0], ...across, left, right);
    const x1 = mapped(ball.high[0], ...across, left, right);
    const y = mapped(ball.q, ...up, bottom, top);
    pen.fillStyle = ball === chosen ? "#0072b2" : "#b9d6e8";
    pen.fillRect(x0, y, Math.max(1, x1 - x0 - 1), bottom - y);
  }
  frame(area, [DATA.action[0].name, "value"], [across, up]);
}

// --- the page --------------------------------------------------------------------------------

function cells(row, values) {
  for (const value of values) {
    const cell = document.createElement(row.parentNode.tagName === "THEAD" ? "th" : "td");
    cell.textContent = value;
    row.append(cell);
  }
}

function update() {
  for (const [i, axis] of DATA.state.entries()) {
    at("state-" + i).value = x[i];
    at("state-" + i + "-shown").textContent = text(x[i]);
  }
  at("step").value = step;
  at("step-shown").textContent = String(step);
  const k = cellAt(step, x), found = DATA.steps[step];
  const action = DATA.policy ? interpolated(step, x) : found.action[k];
  const balls = ballsAt(step, x).sort((a, b) => b.q - a.q);
  const chosen = balls.find((ball) => contains(ball, action)) || null;
  const total = balls.reduce((sum, ball) => sum + ball.density, 0);
  const isUnseen = found.unseen !== null && found.unseen[k];
  const visits = chosen ? chosen.visits : found.visits[k];
  const share = chosen && total > 0 ? chosen.density / total : null;
  at("action").textContent = DATA.action.map((axis, i) => axis.name + " = " + text(action[i]))
    .join(", ");
  at("value").textContent = found.value[k] === null ? "unknown"
    : isUnseen ? "a guess: " + text(found.value[k]) + " from here on"
      : text(found.value[k]) + " from here on, as the agent estimates";
  at("sure").textContent = howSure(visits, share, isUnseen);
  at("support").textContent = visits === null ? "unknown" : isUnseen ? "none" : "about " +
    Math.round(visits).toLocaleString("en") + " visits of this action near this state, " + (DATA.shares_steps ? "at any step, in " : "in ") +
    DATA.n_episodes.toLocaleString("en") + " episodes";
  at("alternatives").hidden = balls.length < 2;
  if (balls.length > 1) {
    const rows = at("rows");
    rows.replaceChildren();
    for (const ball of balls.slice(0, MOST_ROWS)) {
      const row = document.createElement("tr");
      row.className = ball === chosen ? "chosen" : "";
      rows.append(row);
      cells(row, [...range(ball), text(ball.q), Math.round(ball.visits).toLocaleString("en")]);
    }
    drawBars(balls, chosen);
  }
  drawMap();
  showEpisode();
}

function snapped(i, value) { // to the values of a state axis
  const axis = DATA.state[i];
  return Math.min(axis.high, Math.max(axis.low, axis.is_whole ? Math.round(value) : value));
}

function moveTo(i, value) {
  x[i] = snapped(i, value);
  episode = -1;
}

function slider(id, name, low, high, by, onInput) {
  const label = document.createElement("label");
  label.className = "slider";
  const caption = document.createElement("span"), input = document.createElement("input");
  const shown = document.createElement("output");
  caption.textContent = name;
  Object.assign(input, {id, type: "range", min: low, max: high, step: by});
  shown.id = id + "-shown";
  input.addEventListener("input", () => { onInput(Number(input.value)); update(); });
  label.append(caption, input, shown);
  at("controls").append(label);
}

function showEpisode() {
  const rows = at("log-rows"), played = DATA.episodes[Math.max(0, episode)] || [];
  if (!played.length) return;
  rows.replaceChildren();
  let sum = 0;
  played.forEach((one, k) => {
    const row = document.createElement("tr");
    rows.append(row);
    sum += one.reward;
    row.className = episode >= 0 && k === place ? "chosen" : "";
    cells(row, [k, ...one.state.map((value) => text(value)), ...one.action.map((value) => text(value)), text(one.reward), text(sum)]);
  });
  at("played").textContent = episode < 0 ? "The state was moved by hand." :
    "Step " + place + " of episode " + episode + ": reward " + text(played[place].reward) + ".";
  at("back").disabled = episode >= 0 && place === 0;
  at("next").disabled = episode >= 0 && place === played.length - 1;
}

function goTo(k) {
  episode = Number(at("episode").value);
  place = Math.min(DATA.episodes[episode].length - 1, Math.max(0, k));
  step = place;
  x = DATA.episodes[episode][place].state.slice();
  update();
}

function begin() {
  for (const canvas of [at("map"), at("bars")]) {
    canvas.dataset.width = canvas.width;
    canvas.dataset.height = canvas.height;
  }
  at("note").textContent = DATA.policy
    ? "Move the state, and see what the policy plays. It interpolates its action between the " +
      "cells of a grid; the value and the visits are those of the cell."
    : DATA.is_sampled
      ? "This policy has no regions of one action: the page has it on a grid of states."
      : "Move the state, and see what the policy plays.";
  if (DATA.n_episodes === 0 && DATA.steps.every((one) => one.unseen && one.unseen.every(Boolean))) {
    at("note").textContent = "The agent has not learned yet: everything on this page is a guess.";
  }
  const balls = DATA.steps[0].balls;
  if (balls) at("entries").textContent = "Each row is a " + balls.noun + " of actions near this " +
    "state. The visits are those of " + (DATA.shares_steps ? "all steps." : "this step.") +
    (DATA.has_unplayed ? "" : " Actions that were never played there are left out.");
  slider("step", "step", 0, DATA.horizon - 1, 1, (value) => { step = value; episode = -1; });
  at("step").parentElement.hidden = DATA.horizon === 1;
  DATA.state.forEach((axis, i) => {
    const by = axis.is_whole ? 1 : (axis.high - axis.low) / 200;
    slider("state-" + i, axis.name, axis.low, axis.high, by, (value) => moveTo(i, value));
    at("state-" + i).parentElement.hidden = axis.low === axis.high;
    at("state-" + i).step = axis.is_whole ? 1 : "any"; // states between the ticks stay as they are
    at("state-" + i).addEventListener("keydown", (event) => {
      const way = {ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1}[event.key];
      if (way === undefined) return;
      event.preventDefault();
      moveTo(i, x[i] + way * by);
      update();
    });
  });
  cells(at("head"), [...DATA.action.map((axis) => axis.name), "value", "visits"]);
  at("map").addEventListener("click", (event) => {
    const {left, right, top, bottom} = mapArea;
    moveTo(0, mapped(event.offsetX, left, right, ...reach(0)));
    if (N_STATE > 1) moveTo(1, mapped(event.offsetY, bottom, top, ...reach(1)));
    update();
  });
  at("map").addEventListener("keydown", (event) => {
    const way = {ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [1, 1], ArrowDown: [1, -1]}[event.key];
    if (way === undefined || way[0] >= N_STATE) return;
    event.preventDefault();
    const axis = DATA.state[way[0]];
    moveTo(way[0], x[way[0]] + way[1] * (axis.is_whole ? 1 : (axis.high - axis.low) / 100));
    update();
  });
  at("episodes").hidden = DATA.episodes.length === 0;
  if (DATA.episodes.length) {
    DATA.episodes.forEach((_, k) => at("episode").append(new Option(String(k), String(k))));
    cells(at("log-head"), ["step", ...DATA.state.map((axis) => axis.name),
      ...DATA.action.map((axis) => axis.name), "reward", "sum"]);
    at("episode").addEventListener("change", () => goTo(0));
    at("back").addEventListener("click", () => goTo(episode < 0 ? 0 : place - 1));
    at("next").addEventListener("click", () => goTo(episode < 0 ? 0 : place + 1));
  }
  window.addEventListener("resize", update);
  update();
}

begin();
