"use strict";
// Charts from the data beside them, in the colours of the theme, and tables that sort by a click on a header.
(() => {
  const charts = [...document.querySelectorAll(".chart[id]")];

  function plot() {
    if (!window.Plotly) return;
    for (const chart of charts) {
      const { data, layout } = JSON.parse(document.getElementById(`${chart.id}-data`).textContent);
      Plotly.react(chart, data, theme.layout(layout), theme.config);
    }
  }

  function value(cell) {
    const text = cell.textContent.replace("−", "-").replaceAll(",", "");
    return Number.isNaN(parseFloat(text)) ? text : parseFloat(text);
  }

  function sort(table, column, header) {
    const down = header.getAttribute("aria-sort") !== "descending";
    const missing = (known) => typeof known === "string";
    const order = (one, other) => {
      const [a, b] = [one, other].map((line) => value(line.cells[column]));
      if (missing(a) || missing(b)) return column ? missing(a) - missing(b) : (down ? -1 : 1) * String(a).localeCompare(String(b));
      return down ? b - a : a - b;
    };
    for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort(order));
  }

  for (const table of document.querySelectorAll("table")) {
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: header.textContent });
      button.addEventListener("click", () => sort(table, column, header));
      header.replaceChildren(button);
    });
  }
  document.addEventListener("theme", plot);
  document.addEventListener("library", plot);
})();
