"use strict";
// Which classes were taken for which: a heat map of one method, under one corruption or all.
(() => {
  const NAMED = 5; // mistakes that are put into words

  function start(root) {
    const { classes, corruptions, methods } = JSON.parse(document.getElementById(`${root.id}-data`).textContent);
    const [method, corruption] = root.querySelectorAll("select");
    const chart = root.querySelector(".chart"), words = root.querySelector(":scope > p");
    method.append(...methods.map((each, place) => new Option(each.title, place)));
    corruption.append(...["all", ...corruptions].map((name) => new Option(name, name)));

    function counts() {
      const found = classes.map(() => classes.map(() => 0));
      for (const [name, cells] of Object.entries(methods[method.value].counts)) {
        if (["all", name].includes(corruption.value)) for (const [own, other, count] of cells) found[own][other] += count;
      }
      return found;
    }

    function draw() {
      const found = counts(), wholes = found.map((line) => line.reduce((sum, count) => sum + count, 0));
      const wrong = found.flatMap((line, own) => line.map((count, other) => ({ own, other, count, whole: wholes[own] })))
        .filter((each) => each.own !== each.other && each.count);
      const worst = wrong.sort((one, other) => other.count - one.count).slice(0, NAMED);
      words.textContent = worst.length
        ? `Most often: ${worst.map((each) => `${classes[each.own]} taken for ${classes[each.other]} (${each.count} of ${each.whole})`).join(", ")}.`
        : "No cloud was taken for another class.";
      if (!window.Plotly) return;
      Plotly.react(chart, [{
        type: "heatmap", x: classes, y: classes, hoverongaps: false, showscale: false, xgap: 1, ygap: 1, zmin: 0, zmax: 1,
        z: found.map((line, own) => line.map((count) => (count ? count / wholes[own] : null))),
        customdata: found.map((line, own) => line.map((count) => [count, wholes[own]])),
        colorscale: [[0, theme.color("band")], [0.02, theme.color("least")], [1, theme.color("most")]],
        hovertemplate: "%{y} taken for %{x}: %{customdata[0]} of %{customdata[1]} (%{z:.1%})<extra></extra>",
      }], theme.layout({
        height: 110 + 17 * classes.length,
        xaxis: { side: "top", showgrid: false, tickangle: -60, dtick: 1, title: { text: "answer" } },
        yaxis: { autorange: "reversed", showgrid: false, dtick: 1, title: { text: "true class", standoff: 12 } },
      }), theme.config);
    }

    for (const menu of [method, corruption]) menu.addEventListener("change", draw);
    for (const event of ["theme", "library"]) document.addEventListener(event, draw);
  }

  for (const root of document.querySelectorAll(".confusion")) start(root);
})();
