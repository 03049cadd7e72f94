"use strict";
// What the pages with plots share. Strings of the data become text, never markup.
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
// Plotly reads a little markup in labels: written as entities, it shows them as they are.
const escapeHtml = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const DASHES = ["solid", "dash", "dashdot", "dot", "longdash", "longdashdot"];
const SYMBOLS = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross"];
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
