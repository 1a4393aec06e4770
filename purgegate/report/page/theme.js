"use strict";
// Dark or light: as the reader's system says, until the button says otherwise. Charts follow.
const theme = {
  dark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  },
  toggle() {
    document.documentElement.dataset.theme = theme.dark() ? "light" : "dark";
    document.dispatchEvent(new Event("theme"));
  },
  color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  },
  // What all charts share.
  layout(more) {
    const axis = { gridcolor: theme.color("rule"), linecolor: theme.color("rule"), zeroline: false, automargin: true };
    const clear = "rgba(0,0,0,0)";
    return {
      paper_bgcolor: clear, plot_bgcolor: clear, font: { color: theme.color("ink"), size: 12 },
      margin: { l: 8, r: 8, t: 8, b: 8 }, xaxis: { ...axis, ...more.xaxis }, yaxis: { ...axis, ...more.yaxis },
      hoverlabel: { bgcolor: theme.color("band"), font: { color: theme.color("ink") }, bordercolor: theme.color("rule") },
      ...Object.fromEntries(Object.entries(more).filter(([name]) => !["xaxis", "yaxis"].includes(name))),
    };
  },
  config: { displayModeBar: false, responsive: true, showTips: false },
};
document.getElementById("theme")?.addEventListener("click", theme.toggle);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("theme")));
