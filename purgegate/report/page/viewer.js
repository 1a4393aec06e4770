"use strict";
// The cloud viewer. What it shows comes with the page, or, in server mode, cloud by cloud from `scene?…`.
(() => {
  const element = (id) => document.getElementById(id);
  const root = element("viewer");
  if (!root) return;
  const data = JSON.parse(element("viewer-data").textContent);
  const state = { cloud: 0, method: data.methods[0].name, colour: "", place: 0, ...data.start };
  const stage = new Stage(element("cloud"));
  const hidden = new Set(); // names of groups that the reader has switched off
  const { unpack, ask } = wire;
  const { along, hue } = colours;
  let scene = null; // none where the cloud cannot be shown
  let asked = 0; // the number of the last request: an answer to an earlier one comes too late to be shown

  const severities = () => data.corruptions?.[state.corruption] ?? 0;
  const settings = () => ({
    cloud: state.cloud, method: state.method, corruption: state.corruption ?? "",
    severity: Math.min(state.severity ?? 5, severities() || 1),
  });

  function opened(found) {
    const answers = Object.entries(found.answers).map(([name, one]) => [name, {
      ...one, probabilities: unpack(one.probabilities), entropy: unpack(one.entropy), rank: unpack(one.rank),
      layers: one.layers.map((layer) => ({ ...layer, points: unpack(layer.points), flags: unpack(layer.flags) })),
    }]);
    const colours = Object.entries(found.colours).map(([name, values]) => [name, unpack(values)]);
    return {
      ...found, points: unpack(found.points), patch: unpack(found.patch), backdrop: unpack(found.backdrop),
      colours: Object.fromEntries(colours), answers: Object.fromEntries(answers),
    };
  }

  const answer = () => scene.answers[state.method];
  const row = (one, place) => one.probabilities.subarray(place * data.classes.length, (place + 1) * data.classes.length);
  const likeliest = (shares) => shares.indexOf(Math.max(...shares));
  const number = (value) => (value === null || Number.isNaN(value) ? "–" : value.toFixed(3));

  function isWrong(found, cloud, method) {
    const truth = data.clouds[cloud].truth, one = found.answers[method];
    if (!data.classes.includes(truth)) return false;
    const shares = unpack(one.probabilities).subarray(one.chosen * data.classes.length, (one.chosen + 1) * data.classes.length);
    return data.classes[likeliest(shares)] !== truth;
  }

  // ── what is shown ──

  function bars() {
    const one = answer(), shares = row(one, state.place), truth = data.clouds[state.cloud].truth;
    const best = [...shares.keys()].sort((a, b) => shares[b] - shares[a]).slice(0, 5);
    element("bars").replaceChildren(...best.flatMap((index) => {
      const [name, bar, share] = ["span", "i", "span"].map((tag) => document.createElement(tag));
      name.textContent = data.classes[index];
      name.className = data.classes[index] === truth ? "true" : "";
      bar.style.width = `${100 * shares[index]}%`;
      share.textContent = number(shares[index]);
      share.dataset.share = shares[index];
      return [name, bar, share];
    }));
    const told = data.classes[best[0]], judged = data.classes.includes(truth);
    facts([
      ["answer", told, judged ? (told === truth ? "right" : "wrong") : ""],
      ["true class", truth || "not known", ""],
      ["entropy", `${number(one.entropy[state.place])} nats`, ""],
      ["purged", one.sweeps ? `${one.sizes[state.place]} of ${data.groups} tokens` : `${one.purged} ${one.unit}`, ""],
      ...(one.sweeps ? [["the gate’s size", `${one.sizes[one.chosen]} tokens`, ""]] : []),
      ["shift", one.shift === null ? "–" : one.shift.toFixed(2), ""],
      ...(one.stages.length ? [["repaired", one.stages.join(", "), ""]] : []),
    ]);
    element("purged").textContent = one.sweeps ? `${one.sizes[state.place]} of ${data.groups}` : "–";
  }

  function facts(pairs) {
    element("facts").replaceChildren(...pairs.flatMap(([name, text, kind]) => {
      const [term, told] = ["dt", "dd"].map((tag) => document.createElement(tag));
      term.textContent = name;
      told.textContent = kind ? `${text}, ${kind}` : text;
      told.className = kind;
      return [term, told];
    }));
  }

  function sweep() {
    const one = answer(), truth = data.clouds[state.cloud].truth;
    element("sweep").hidden = !one.sweeps;
    if (!one.sweeps || !window.Plotly) return;
    const known = data.classes.indexOf(truth);
    const followed = known >= 0 ? known : likeliest(row(one, one.chosen));
    const shares = one.sizes.map((_, place) => row(one, place)[followed]);
    const line = (y, name, color, yaxis) => ({
      x: one.sizes, y, name, yaxis, mode: "lines", line: { color, width: 2 }, hovertemplate: "%{y:.3f}",
    });
    const mark = (place, color, dash) => ({
      type: "line", x0: one.sizes[place], x1: one.sizes[place], yref: "paper", y0: 0, y1: 1, line: { color, width: 1.5, dash },
    });
    Plotly.react("sweep", [
      line(shares, `share of ${data.classes[followed]}`, "#3b82c4"), line([...one.entropy], "entropy", "#d55e00", "y2"),
    ], theme.layout({
      xaxis: { title: { text: "purged tokens" } }, yaxis: { range: [0, 1.03], title: { text: "share" } },
      yaxis2: {
        overlaying: "y", side: "right", range: [0, 1.03 * Math.log(data.classes.length)], tickmode: "auto", nticks: 4,
        showgrid: false, automargin: true, title: { text: "entropy" },
      },
      shapes: [mark(state.place, theme.color("ink"), "solid"), mark(one.chosen, theme.color("faint"), "dot")],
      legend: { orientation: "h", y: 1.18, x: 0 }, hovermode: "x unified", dragmode: false,
    }), theme.config).then((chart) => {
      chart.removeAllListeners("plotly_click");
      chart.on("plotly_click", (event) => resize(event.points[0].pointIndex));
    });
  }

  function group(name, points, keep, color, radius, opacity = 1) {
    const places = [...Array(points.length / 3).keys()].filter(keep);
    const taken = (values) => Float32Array.from(places.flatMap((i) => values(i)));
    return {
      name, radius, opacity, points: taken((i) => [...points.subarray(3 * i, 3 * i + 3)]),
      colors: taken(color), swatch: [0, 0.5, 1].map((share) => color(places[Math.floor(share * (places.length - 1))] ?? 0)),
    };
  }

  function keptColor() {
    const values = scene.colours[state.colour], patch = scene.patch;
    if (values) {
      const least = Math.min(...values), most = Math.max(...values);
      return (i) => along((values[patch[i]] - least) / (most - least || 1));
    }
    return state.colour === "patch" ? (i) => hue(patch[i]) : () => colours.KEPT;
  }

  function groups() {
    const one = answer(), dropped = one.sweeps ? data.groups - one.sizes[state.place] : data.groups;
    const isPurged = (i) => one.rank !== null && one.rank[scene.patch[i]] >= dropped;
    const marking = one.layers.filter((layer) => layer.flags);
    const isMarked = (i) => marking.some((layer) => layer.flags[i]);
    return [
      group("kept", scene.points, (i) => !isPurged(i) && !isMarked(i), keptColor(), 0.02),
      group("purged", scene.points, (i) => isPurged(i) && !isMarked(i), () => colours.STRAY, 0.016),
      ...marking.map((layer) => group(layer.name, scene.points, (i) => layer.flags[i], () => colours.STRAY, 0.024)),
      ...one.layers.filter((layer) => layer.points).map((layer) => group(layer.name, layer.points, () => true, () => colours.MADE, 0.014, 0.4)),
      ...(scene.backdrop ? [group("the whole file", scene.backdrop, () => true, () => colours.FILE, 0.007, 0.5)] : []),
    ].filter((each) => each.points.length);
  }

  function cloud() {
    const shown = groups();
    stage.show(shown.filter((each) => !hidden.has(each.name)), colours.paper());
    element("layers").replaceChildren(...shown.map((each) => {
      const [label, box, swatch] = ["label", "input", "i"].map((tag) => document.createElement(tag));
      Object.assign(box, { type: "checkbox", checked: !hidden.has(each.name) });
      box.addEventListener("change", () => { hidden[box.checked ? "delete" : "add"](each.name); cloud(); });
      swatch.style.background = `linear-gradient(to right, ${each.swatch.map((color) => `rgb(${color.map(Math.round)})`)})`;
      label.append(box, swatch, `${each.name} (${(each.points.length / 3).toLocaleString("en")})`);
      return label;
    }));
    const values = scene.colours[state.colour];
    element("scale").hidden = !values;
    if (values) {
      element("least").textContent = Math.min(...values).toPrecision(3);
      element("most").textContent = Math.max(...values).toPrecision(3);
      element("ramp").style.background = `linear-gradient(to right, ${colours.VIRIDIS.map((step) => `#${step}`).join(",")})`;
    }
    element("note").textContent = scene.note;
  }

  function draw() {
    if (!scene) return;
    bars(); cloud(); sweep();
    root.dataset.shown = JSON.stringify([state.cloud, state.method, state.corruption ?? "", answer().sizes[state.place]]);
  }

  // ── what a reader does ──

  function options(id, names, chosen) {
    element(id).replaceChildren(...names.map(([value, text]) => new Option(text, value, false, String(value) === String(chosen))));
  }

  function menus() {
    options("severity", [...Array(severities()).keys()].map((level) => [level + 1, level + 1]), settings().severity);
    element("severity").disabled = !severities();
    const colours = [...Object.keys(scene.colours), "patch", "plain"];
    if (!colours.includes(state.colour)) state.colour = colours[0];
    options("colour", colours.map((name) => [name, name]), state.colour);
    const slider = element("size"), one = answer();
    slider.max = one.sizes.length - 1;
    slider.value = state.place;
    slider.disabled = !one.sweeps;
    element("method").value = state.method;
  }

  // Nothing of the last cloud stays beside the name of one that cannot be shown.
  function clear() {
    scene = null;
    stage.show([], colours.paper());
    for (const id of ["bars", "facts", "layers"]) element(id).replaceChildren();
    for (const id of ["scale", "sweep"]) element(id).hidden = true;
    element("purged").textContent = "–";
  }

  // Work that may take time; what is begun later overtakes it.
  async function busily(work) {
    const own = (asked += 1), isLate = () => own !== asked;
    root.setAttribute("aria-busy", "true");
    try {
      await work(isLate);
    } catch (error) {
      if (isLate()) return;
      clear();
      element("note").textContent = `This cloud cannot be shown: ${error.message}`;
    } finally {
      if (!isLate()) root.setAttribute("aria-busy", "false");
    }
  }

  const show = () => busily(async (isLate) => {
    element("name").textContent = `${data.clouds[state.cloud].name} (${state.cloud + 1} of ${data.clouds.length})`;
    const found = data.live ? await ask("scene", settings()) : data.scenes[state.cloud];
    if (isLate()) return;
    scene = opened(found);
    state.place = answer().chosen;
    menus();
    draw();
  });

  function resize(place) {
    if (!scene || !answer().sweeps) return;
    state.place = Math.max(0, Math.min(answer().sizes.length - 1, place));
    element("size").value = state.place;
    draw();
  }

  // By 0 stays here, unless wrong answers are wanted and this is none.
  const step = (by) => busily(async (isLate) => {
    const count = data.clouds.length, onward = (cloud) => (cloud + (by || 1) + count) % count;
    let cloud = by ? onward(state.cloud) : state.cloud;
    if (element("wrong").checked) cloud = await wrongFrom(cloud, onward, isLate);
    if (isLate()) return;
    if (cloud === null) element("note").textContent = "No cloud is answered wrongly.";
    else { state.cloud = cloud; await show(); }
  });

  async function wrongFrom(first, onward, isLate) {
    for (let cloud = first, looked = 0; looked < data.clouds.length && !isLate(); looked += 1, cloud = onward(cloud)) {
      if (data.live && looked) element("note").textContent = `Looking for a wrong answer: ${looked} of ${data.clouds.length} clouds`;
      const found = data.live ? await ask("scene", { ...settings(), cloud }) : data.scenes[cloud];
      if (isWrong(found, cloud, state.method)) return cloud;
    }
    return null;
  }

  function after(id) {
    const choices = [...element(id).options].map((option) => option.value);
    element(id).value = choices[(choices.indexOf(element(id).value) + 1) % choices.length];
    element(id).dispatchEvent(new Event("change"));
  }

  const KEYS = {
    ArrowLeft: () => step(-1), ArrowRight: () => step(1), "[": () => resize(state.place - 1), "]": () => resize(state.place + 1),
    g: () => scene && resize(answer().chosen), m: () => after("method"), c: () => after("colour"), t: theme.toggle,
    w: () => element("wrong").click(), "+": () => stage.turn(0, 0, 1.2), "-": () => stage.turn(0, 0, 1 / 1.2),
  };

  options("method", data.methods.map((method) => [method.name, method.title]), state.method);
  options("corruption", [["", "none"], ...Object.keys(data.corruptions ?? {}).map((name) => [name, name])], state.corruption);
  for (const id of ["corruption-label", "severity-label"]) element(id).hidden = !data.live;
  element("wrong-label").hidden = !data.clouds.some((each) => data.classes.includes(each.truth));
  element("previous").addEventListener("click", () => step(-1));
  element("next").addEventListener("click", () => step(1));
  element("wrong").addEventListener("change", (event) => { if (event.target.checked) step(0); });
  element("size").addEventListener("input", (event) => resize(Number(event.target.value)));
  element("method").addEventListener("change", (event) => { state.method = event.target.value; show(); });
  element("colour").addEventListener("change", (event) => { state.colour = event.target.value; draw(); });
  element("corruption").addEventListener("change", (event) => { state.corruption = event.target.value; show(); });
  element("severity").addEventListener("change", (event) => { state.severity = Number(event.target.value); show(); });
  document.addEventListener("theme", draw);
  document.addEventListener("library", () => scene && sweep());
  document.addEventListener("keydown", (event) => {
    const turns = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (event.shiftKey && turns) { stage.turn(...turns.map((part) => part / 8)); event.preventDefault(); return; }
    const moves = event.target.matches?.("select, input[type=range]") && event.key.startsWith("Arrow"); // what has the focus
    if (moves || event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  show();
  window.viewer = { state, stage }; // for the console
})();
