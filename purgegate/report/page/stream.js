"use strict";
// A stream while it runs: the page asks every second for what is new.
(() => {
  const element = (id) => document.getElementById(id);
  const root = element("stream");
  const KEPT = 2000, PICTURES = 8; // as figures/timeline.py has them
  const RECENT = 50, DOTS = 300, PAUSE = 1000; // clouds of a mean, clouds that have a dot, milliseconds
  let run = "", clouds = [], told = null;

  const number = (value, digits) => (value === null || value === undefined || Number.isNaN(value) ? "–" : value.toFixed(digits));
  const percent = (share, digits = 1) => (share === null || Number.isNaN(share) ? "–" : `${(100 * share).toFixed(digits)} %`);
  const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);

  // The mean of the last values up to each that is known.
  function running(known) {
    let sum = 0;
    return known.map((value, place) => {
      sum += value - (place >= RECENT ? known[place - RECENT] : 0);
      return sum / Math.min(place + 1, RECENT);
    });
  }

  function rate() {
    const last = clouds.slice(-RECENT), span = last.length > 1 ? last.at(-1).seconds - last[0].seconds : 0;
    return span ? (last.length - 1) / span : null;
  }

  function tiles() {
    const last = clouds.slice(-RECENT), now = last.at(-1), known = last.filter((cloud) => cloud.right !== null);
    const texts = {
      seen: told.seen.toLocaleString("en"), rate: number(rate(), 1), shift: number(mean(last.map((cloud) => cloud.shift).filter((shift) => shift !== null)), 2),
      accuracy: known.length ? percent(mean(known.map((cloud) => Number(cloud.right)))) : "not known",
      all: told.known ? percent(told.right / told.known) : "not known",
      purged: percent(mean(last.map((cloud) => cloud.purged))), alarm: now?.alarm ?? "off",
    };
    for (const [id, text] of Object.entries(texts)) element(id).textContent = text;
    element("alarm").className = now?.alarm === "ringing" ? "wrong" : "";
    element("alarms").replaceChildren(...told.alarms.map((alarm) => Object.assign(document.createElement("li"), { textContent: alarm.line })));
    const parts = [
      told.failed ? `${told.failed} not answered, the last: ${told.failure}` : "",
      told.ended ? "The stream has ended." : told.seen ? "" : "No cloud has come yet.",
    ];
    element("note").textContent = parts.filter(Boolean).join(" ");
  }

  const trace = (some, y, color, mode) => ({
    x: some.map((cloud) => cloud.number), y, mode, line: { color, width: 2 }, marker: { color, size: 3, opacity: 0.5 }, hovertemplate: "%{y:.3f}<extra></extra>",
  });
  const each = (value) => trace(clouds, clouds.map(value), "#d55e00", "lines");
  const dots = (value) => trace(clouds.slice(-DOTS), clouds.slice(-DOTS).map(value), "#8c959f", "markers");

  function line(value) {
    const known = clouds.filter((cloud) => value(cloud) !== null);
    return trace(known, running(known.map((cloud) => Number(value(cloud)))), "#3b82c4", "lines");
  }

  function course(id, data, yaxis, shapes = []) {
    const place = element(id), known = data.some((trace) => trace.y.some((value) => value !== null));
    place.hidden = !known;
    if (!known) return;
    const upright = (at, dash) => ({ type: "line", x0: at, x1: at, yref: "paper", y0: 0, y1: 1, line: { color: theme.color("bad"), width: 1.5, dash } });
    const first = clouds[0].number;
    Plotly.react(place.querySelector(".course"), data, theme.layout({
      xaxis: { range: [first - 0.5, Math.max(clouds.at(-1).number, first + 9) + 0.5] }, yaxis, dragmode: false, showlegend: false,
      shapes: [...shapes, ...told.alarms.flatMap((alarm) => [upright(alarm.since, "dot"), upright(alarm.number, "solid")])],
    }), theme.config);
  }

  function courses() {
    if (!window.Plotly || !clouds.length) return;
    course("accuracy-course", [line((cloud) => cloud.right)], { range: [0, 1.03], tickformat: ".0%" });
    course("shift-course", [dots((cloud) => cloud.shift), line((cloud) => cloud.shift)], {});
    course("alarm-course", [each((cloud) => cloud.evidence)], {}, [
      { type: "line", xref: "paper", x0: 0, x1: 1, y0: 1, y1: 1, line: { color: theme.color("faint"), width: 1, dash: "dash" } },
    ]);
    course("purged-course", [dots((cloud) => cloud.purged), line((cloud) => cloud.purged)], { rangemode: "tozero", tickformat: ".0%" });
  }

  function picture(one) {
    const [figure, canvas, caption, name, answer, more] = ["figure", "canvas", "figcaption", "span", "b", "span"].map((tag) => document.createElement(tag));
    const judged = one.truth ? (one.class === one.truth ? "right" : "wrong") : "";
    name.textContent = `${one.number}: ${one.name.split(/[\\/]/).at(-1)}`;
    answer.textContent = `${one.class}${one.unknown ? "?" : ""} ${number(one.confidence, 2)}`;
    answer.className = judged;
    more.textContent = [judged === "wrong" ? `is ${one.truth}` : judged, one.unknown ? "unknown object" : "", ...one.stages].filter(Boolean).join(", ");
    for (const part of [name, more]) part.className = "faint";
    figure.title = one.name;
    caption.append(name, answer, more);
    figure.append(canvas, caption);
    Object.assign(figure, { number: one.number, stage: new Stage(canvas, { still: true }), points: wire.unpack(one.points) });
    return figure;
  }

  function paint(figure) {
    const { points } = figure, colors = new Float32Array(points.length);
    for (let i = 0; i < points.length; i += 3) colors.set(colours.along(0.5 + 0.5 * points[i + 2]), i); // by height
    figure.stage.show([{ points, colors, radius: 0.035, opacity: 1 }], colours.paper());
  }

  function pictures(fresh) {
    const shown = [...element("pictures").children], all = [...fresh.map(picture).reverse(), ...shown].slice(0, PICTURES);
    element("pictures").replaceChildren(...all);
    all.forEach(paint);
  }

  function take(found) {
    if (found.run !== run) { // this page's first answer, or the stream was begun anew
      run = found.run;
      clouds = [];
      element("pictures").replaceChildren();
    }
    const isNews = found.clouds.length || found.alarms.length !== told?.alarms.length;
    told = found;
    clouds = [...clouds, ...found.clouds].slice(-KEPT);
    tiles();
    if (isNews) courses();
    if (found.pictures.length) pictures(found.pictures);
    root.dataset.seen = told.seen;
    root.setAttribute("aria-busy", "false");
  }

  async function look() {
    try {
      const found = await wire.ask("stream", { after: told ? told.seen : 0 });
      take(told && found.run !== run ? await wire.ask("stream", { after: 0 }) : found);
    } catch {
      element("note").textContent = "The stream does not answer: it was ended, or this page's server.";
    }
    if (!told?.ended) setTimeout(look, PAUSE);
  }

  document.addEventListener("theme", () => { if (told) { courses(); [...element("pictures").children].forEach(paint); } });
  document.addEventListener("library", () => told && courses());
  look();
})();
