"use strict";
/* Interactive attention maps of one text: attentionPanel(maps) creates the section of a page that shows them.
   maps: { words, prediction, layers: [{ heads, token2token, source2token, pieces }], pooling, contributions, bias }, as the API and
   `mtsa explain --json --features` give it; pieces, contributions and bias may be missing, and a model may have no layers. */

function el(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options))
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name in node && !name.startsWith("aria")) node[name] = value;
    else node.setAttribute(name, value);
  node.append(...children.filter(child => child !== null));
  return node;
}

/* ---- weights ---- */

const sum = values => values.reduce((total, value) => total + value, 0);

/* Of one head: [query][key]. With a feature (from 0), the weights of that feature: the definition adds its source2token
   score to the pair's score, so the weights multiply, and each row is normalized again. */
function headWeights(layer, head, feature) {
  if (feature < 0) return layer.token2token[head];
  const exact = layer.pieces || layer, source = exact.source2token[head];
  const rows = exact.token2token[head].map(row => {
    const scaled = row.map((weight, key) => weight * source[key][feature]), total = sum(scaled);
    return total > 0 ? scaled.map(value => value / total) : scaled;
  });
  return layer.pieces ? mergedPieces(rows, layer.pieces.word) : rows;
}
/* Weights of word pieces as weights of words: summed over key pieces, averaged over query pieces with nonzero weights. */
function mergedPieces(rows, word) {
  const count = Math.max(...word) + 1, merged = Array.from({ length: count }, () => Array(count).fill(0)), attending = Array(count).fill(0);
  rows.forEach((row, query) => {
    if (sum(row) > 0) attending[word[query]]++;
    row.forEach((value, key) => { merged[word[query]][word[key]] += value; });
  });
  return merged.map((row, query) => row.map(value => value / Math.max(1, attending[query])));
}
/* Source2token weights of one head: of one feature, or averaged over all. */
function sourceWeights(layer, head, feature) {
  return layer.source2token[head].map(values => feature < 0 ? sum(values) / values.length : values[feature]);
}
/* Weights relative to a uniform distribution over the nonzero ones. */
function relativeToUniform(row) {
  const seen = row.filter(value => value > 0).length;
  return row.map(value => value * seen);
}
const signed = value => `${value <= -.005 ? "\u2212" : "+"}${Math.abs(value).toFixed(2)}`;
const average = rows => rows.map(values => sum(values) / values.length);
/* The direction of a head, from its weights. */
function direction(rows) {
  let earlier = false, later = false, itself = false;
  rows.forEach((row, query) => row.forEach((value, key) => {
    if (value > 0) { if (key < query) earlier = true; else if (key > query) later = true; else itself = true; }
  }));
  if (earlier && later) return "attends to earlier and later words";
  if (earlier) return itself ? "attends to itself and earlier words" : "attends to earlier words";
  if (later) return itself ? "attends to itself and later words" : "attends to later words";
  return itself ? "attends to itself" : "attends to no word";
}

/* ---- pictures ---- */

function palette() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "paper", "soft", "line", "mark", "warm", "bad"];
  return Object.fromEntries(names.map(name => [name, style.getPropertyValue(`--${name}`).trim()]));
}
function mixed(from, to, part) {
  const numbers = text => [1, 3, 5].map(start => parseInt(text.slice(start, start + 2), 16));
  const a = numbers(from), b = numbers(to);
  return `rgb(${a.map((value, place) => Math.round(value + (b[place] - value) * part)).join(" ")})`;
}
const FONT = "12px system-ui, sans-serif", MOST_NAMES = 40, GAP = 5;

function shortened(name) {
  const letters = [...name];
  return letters.length <= 14 ? name : letters.slice(0, 13).join("") + "\u2026";
}
function axisNames(names) {
  return names.length <= MOST_NAMES ? names.map(shortened) : names.map((_, place) => place % 5 === 4 ? String(place + 1) : "");
}
/* A map: { title, rows: values against `top`, rowNames, columnNames, colour, top, empty }; where it has `figure`, negative values are red
   and each cell has its number. Returns its positions in pixels: */
function layout(context, map) {
  context.font = FONT;
  const widest = names => Math.ceil(Math.max(8, ...names.map(name => context.measureText(name).width)));
  const rows = axisNames(map.rowNames), columns = axisNames(map.columnNames);
  const cell = Math.max(4, Math.min(22, Math.floor(340 / Math.max(rows.length, columns.length))));
  const left = widest(rows) + GAP, below = (map.flat ? 16 : widest(columns)) + GAP;
  const across = map.figure ? 64 : map.flat ? Math.max(cell, 22) : cell;
  return { rows, columns, cell, across, left, below, width: left + across * columns.length + 2, height: cell * rows.length + below };
}
function paint(context, map, x, y, colours) {
  const at = layout(context, map);
  map.rows.forEach((row, query) => row.forEach((value, key) => {
    if (!(map.figure ? value : value > 0)) return;
    context.fillStyle = mixed(colours.paper, colours[value < 0 ? "bad" : map.colour], Math.min(1, Math.abs(value) / map.top) * (map.figure ? .6 : 1));
    context.fillRect(x + at.left + key * at.across, y + query * at.cell, at.across - (at.across > 8 ? 1 : 0), at.cell - (at.cell > 8 ? 1 : 0));
    if (!map.figure || at.cell < 12) return;
    context.fillStyle = colours.ink; context.textAlign = "center"; context.textBaseline = "middle";
    context.fillText(map.figure(value), x + at.left + (key + .5) * at.across, y + (query + .5) * at.cell);
  }));
  context.strokeStyle = colours.line;
  context.strokeRect(x + at.left - .5, y + .5, at.across * at.columns.length, at.cell * at.rows.length - 1);
  context.fillStyle = colours.ink;
  context.font = at.cell < 12 && map.rows.length <= MOST_NAMES ? FONT.replace("12px", `${Math.max(7, at.cell)}px`) : FONT;
  context.textAlign = "right"; context.textBaseline = "middle";
  at.rows.forEach((name, place) => context.fillText(name, x + at.left - GAP, y + (place + .5) * at.cell));
  at.columns.forEach((name, place) => {
    context.save();
    context.translate(x + at.left + (place + .5) * at.across, y + at.rows.length * at.cell + GAP);
    if (map.flat) { context.textAlign = "center"; context.textBaseline = "top"; } else context.rotate(-Math.PI / 2);
    context.fillText(name, 0, 0);
    context.restore();
  });
  return at;
}
function sized(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.ceil(width * scale); canvas.height = Math.ceil(height * scale);
  canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  return context;
}
/* All maps of a panel in one picture, with a heading. */
function picture(heading, maps) {
  const canvas = document.createElement("canvas"), colours = palette(), trial = canvas.getContext("2d");
  const sizes = maps.map(map => layout(trial, map)), title = 22, edge = 16;
  trial.font = FONT;
  const needed = sizes.map((size, place) => Math.max(size.width, trial.measureText(maps[place].title).width));
  const across = Math.min(maps.length, 4), lines = [];
  for (let start = 0; start < maps.length; start += across) lines.push([start, Math.min(maps.length, start + across)]);
  const range = ([from, to]) => Array.from({ length: to - from }, (_, place) => from + place);
  const heights = lines.map(line => title + Math.max(...range(line).map(place => sizes[place].height)) + edge);
  const wide = Math.max(...lines.map(line => sum(range(line).map(place => needed[place] + edge))), ...heading.map(text => trial.measureText(text).width + edge));
  const context = sized(canvas, wide + edge, sum(heights) + heading.length * title + 2 * edge);
  context.fillStyle = colours.paper; context.fillRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = colours.ink; context.font = FONT; context.textBaseline = "top"; context.textAlign = "left";
  heading.forEach((text, place) => context.fillText(text, edge, edge + place * title));
  let y = edge + heading.length * title;
  lines.forEach((line, number) => {
    let x = edge;
    for (const place of range(line)) {
      context.fillStyle = colours.ink; context.font = FONT; context.textAlign = "left"; context.textBaseline = "top";
      context.fillText(maps[place].title, x, y);
      paint(context, maps[place], x, y + title, colours);
      x += needed[place] + edge;
    }
    y += heights[number];
  });
  return canvas;
}

/* ---- the panel ---- */

const shared = { feature: -1 };  // initial state of the next panel

function attentionPanel(maps, { heading = "", onWord = () => {}, onFeature = () => {} } = {}) {
  const state = { layer: maps.layers.length - 1, feature: shared.feature, word: -1, pinned: -1 };  // word: shown; pinned: shown without hovering
  const layer = () => maps.layers[state.layer];
  const layered = maps.layers.length > 0, contributions = maps.contributions || null;
  const features = () => layered ? layer().source2token[0][0].length : 0;
  const words = el("div", { className: "words", role: "group", "aria-label": "words of the text" });
  const readout = el("p", { className: "readout", "aria-live": "polite" });
  const heads = el("div", { className: "heads" });
  const legend = el("p", { className: "small" });
  const layers = el("select", { onchange: event => { state.layer = Number(event.target.value); limit(); redraw(); } },
    ...maps.layers.map((_, place) => new Option(`${place + 1} of ${maps.layers.length}`, String(place))));
  layers.value = String(state.layer);
  const shown = el("output");
  const slider = el("input", { type: "range", min: 0, value: 0, step: 1, oninput: () => {
    shared.feature = state.feature = Number(slider.value) - 1;
    redraw();
    onFeature(state.feature);
  } });
  let charts = [];

  function limit() {
    if (!layered) return;
    slider.max = features();
    state.feature = Math.min(state.feature, features() - 1);
    slider.value = state.feature + 1;
  }
  function choose(place, tell = true) {
    state.word = place;
    paintWords();
    if (tell) onWord(place, maps.words);
  }
  function strongest(head) {
    const row = headWeights(layer(), head, state.feature)[state.word];
    const order = row.map((value, key) => [value, key]).filter(([value]) => value > 0).sort((a, b) => b[0] - a[0]);
    if (!order.length) return "no allowed key";
    return order.slice(0, 3).map(([value, key]) => `${quoted(key)} ${Math.round(100 * value)} %`).join(", ");
  }
  const repeated = new Set(maps.words.filter((word, place) => maps.words.indexOf(word) !== place));
  const quoted = place => `\u201c${maps.words[place]}\u201d${repeated.has(maps.words[place]) ? ` (${place + 1})` : ""}`;
  function paintWords(cell = "") {
    const chosen = state.word >= 0;
    [...words.children].forEach((button, place) => button.setAttribute("aria-pressed", String(place === state.word)));
    readout.replaceChildren(...(!layered ? numbersOf(state.word) : chosen
      ? [el("strong", {}, quoted(state.word)), " attends to: ", layer().heads.map((mask, head) => `head ${head + 1}: ${strongest(head)}`).join("; "), cell ? el("br") : "", cell]
      : [cell || "Hover over a word, or select it with Tab and the arrow keys, to see its attention weights. Without a selection, the words above each map are coloured by their source2token weights."]));
    [...heads.querySelectorAll(".strip[data-head]")].forEach(strip => {
      const head = Number(strip.dataset.head);
      const row = chosen ? headWeights(layer(), head, state.feature)[state.word] : sourceWeights(layer(), head, state.feature);
      shadeStrip(strip, relativeToUniform(row), row, chosen ? "--mark" : "--warm");
    });
  }
  /* For models without attention layers: the values of a word. */
  function numbersOf(place) {
    if (place < 0) return ["Hover over a word, or select it with Tab and the arrow keys, to see its values."];
    const values = [];
    if (contributions) values.push(`contributes ${signed(contributions[place])} to the output`);
    if (maps.pooling !== null) values.push(`has ${(100 * average(maps.pooling)[place]).toFixed(1)} % of the pooling weight`);
    return [el("strong", {}, quoted(place)), ` ${values.join(" and ")}.`];
  }
  /* A bar for each word: to the right for positive contributions, to the left for negative ones. */
  function contributionBars() {
    const top = Math.max(...contributions.map(Math.abs), 1e-9);
    return el("div", { className: "contributions" }, ...maps.words.map((word, place) => {
      const inner = el("i", { className: contributions[place] < 0 ? "negative" : "positive" });
      inner.style.width = `${50 * Math.abs(contributions[place]) / top}%`;
      return el("span", {}, el("b", {}, word), el("span", { className: "bar" }, inner), el("small", {}, signed(contributions[place])));
    }));
  }
  function wordParts() {
    const parts = [];
    if (maps.pooling !== null) {
      const mean = average(maps.pooling), strip = stripOf({});
      shadeStrip(strip, relativeToUniform(mean), mean, "--warm");
      parts.push(el("figure", {}, el("figcaption", {}, "Pooling weights (mean over features)"), strip));
      if (!layered) charts.push({ title: "Pooling", flat: true, rows: relativeToUniform(mean).map(value => [value]), rowNames: maps.words, columnNames: ["relative to uniform"], colour: "warm", top: Math.max(2, ...relativeToUniform(mean)), figure: value => value.toFixed(2) });
    }
    if (contributions) {
      const total = sum(contributions) + maps.bias, title = `Contributions of the words to the output ${signed(total)} (bias ${signed(maps.bias)})`;
      parts.push(el("figure", { className: "wide" }, el("figcaption", {}, title), contributionBars()));
      charts.push({ title, flat: true, rows: contributions.map(value => [value]), rowNames: maps.words, columnNames: [""], colour: "mark", top: Math.max(...contributions.map(Math.abs), 1e-9), figure: signed });
    }
    return parts;
  }
  function shadeStrip(strip, times, row, colour) {
    const top = Math.max(2, ...times);
    [...strip.children].forEach((word, place) => {
      word.style.background = `color-mix(in srgb, var(${colour}) ${Math.round(80 * Math.min(1, times[place] / top))}%, transparent)`;
      word.title = `${(100 * row[place]).toFixed(1)} %, ${times[place].toFixed(2)}\u00d7 uniform weight`;
    });
  }
  const stripOf = options => el("div", { className: "strip", ...options }, ...maps.words.map(word => el("span", {}, word)));
  function mapCanvas(map, hovered) {
    const canvas = el("canvas", { role: "img", "aria-label": map.title });
    map.canvas = canvas;
    canvas.addEventListener("mousemove", event => {
      const at = map.at, key = Math.floor((event.offsetX - at.left) / at.across), query = Math.floor(event.offsetY / at.cell);
      const inside = key >= 0 && key < map.columnNames.length && query >= 0 && query < map.rowNames.length;
      canvas.title = inside ? map.tip(query, key) : "";
      if (inside && hovered && query !== state.word) choose(query);
      if (inside) paintWords(map.tip(query, key));
    });
    canvas.addEventListener("mouseleave", () => choose(state.pinned));
    return el("div", { className: "map" }, canvas);
  }
  function redraw() {
    charts = [];
    if (layered) drawLayer();
    else { heads.replaceChildren(); readout.style.minHeight = "3.1em"; }
    heads.append(...wordParts());
    if (!layered) legend.textContent = contributions ? "Blue: positive contribution, red: negative. Contributions and bias sum to the output: the logit of the predicted class or label, or the predicted value." : "Darkest colour: 2\u00d7 uniform weight or more.";
    else if (contributions) legend.textContent += " Bars: blue for positive contributions, red for negative ones; with the bias they sum to the logit of the predicted class or label, or to the predicted value.";
    paintWords();
  }
  function drawLayer() {
    readout.style.height = `${1.55 * (2 + Math.min(4, Math.ceil(layer().heads.length / 2)))}em`;  // so that nothing below it jumps
    const now = layer(), all = now.heads.map((_, head) => headWeights(now, head, state.feature));
    shown.textContent = state.feature < 0 ? `all ${features()}` : `${state.feature + 1} of ${features()}`;
    const times = all.map(rows => rows.map(relativeToUniform));
    const top = Math.max(2, ...times.map(rows => Math.max(...rows.map(row => Math.max(...row)))));
    const sources = now.heads.map((_, head) => relativeToUniform(sourceWeights(now, head, state.feature)));
    const sourceTop = Math.max(2, ...sources.map(row => Math.max(...row)));
    const suffix = state.feature < 0 ? "" : `, feature ${state.feature + 1}`;
    charts = all.map((rows, head) => ({
      title: `Head ${head + 1} (${now.heads[head]})${suffix}: ${direction(now.token2token[head])}`,
      rows: times[head], rowNames: maps.words, columnNames: maps.words, colour: "mark", top,
      tip: (query, key) => rows[query].every(value => value === 0) ? `Head ${head + 1}: ${quoted(query)} has no allowed key`
        : `Head ${head + 1}: ${quoted(query)} \u2192 ${quoted(key)}: ${(100 * rows[query][key]).toFixed(1)} %, ${times[head][query][key].toFixed(2)}\u00d7 uniform weight`,
    }));
    const source = {
      title: `Source2token weights by head${suffix}`, flat: true,
      rows: maps.words.map((_, word) => sources.map(row => row[word])), rowNames: maps.words,
      columnNames: now.heads.map((_, head) => String(head + 1)), colour: "warm", top: sourceTop,
      tip: (word, head) => `Head ${head + 1}: source2token weight of ${quoted(word)}: ${sources[head][word].toFixed(2)}\u00d7 uniform weight`,
    };
    heads.replaceChildren(
      ...charts.map((map, head) => el("figure", {}, el("figcaption", {}, map.title), stripOf({ "data-head": head }), mapCanvas(map, true))),
      el("figure", {}, el("figcaption", {}, source.title), mapCanvas(source, false)),
    );
    charts.push(source);
    const colours = palette();
    for (const map of charts) {
      const size = layout(document.createElement("canvas").getContext("2d"), map);
      map.at = paint(sized(map.canvas, size.width, size.height), map, 0, 0, colours);
    }
    const even = Math.max(...times.flat(2)) < 1.1 ? "The attention of this layer is nearly uniform. " : "";
    legend.textContent = `${even}Rows: queries; columns: keys. Darkest blue: ${top.toFixed(1)}\u00d7 uniform weight; darkest orange: ${sourceTop.toFixed(1)}\u00d7. ` +
      (state.feature < 0 ? "Select a feature to see its weights: in tensorized attention, every feature has its own." : "Weights of the selected feature.");
  }
  const pin = place => { state.pinned = place; choose(place); };
  maps.words.forEach((word, place) => words.append(el("button", {
    type: "button", tabIndex: place ? -1 : 0, onmouseenter: () => choose(place), onfocus: () => pin(place),
    onmouseleave: () => choose(state.pinned), onclick: () => pin(place),
    onkeydown: event => {
      if (event.key === "Escape") pin(-1);
      const last = maps.words.length - 1;
      const to = { ArrowRight: place + 1, ArrowDown: place + 1, ArrowLeft: place - 1, ArrowUp: place - 1, Home: 0, End: last }[event.key];
      const next = to === undefined ? null : words.children[to];
      if (!next) return;
      event.preventDefault();
      event.target.tabIndex = -1; next.tabIndex = 0; next.focus();
    },
  }, maps.words.length > MOST_NAMES ? el("small", {}, `${place + 1} `) : null, word)));
  const node = el("section", { className: "attention", "aria-label": `attention maps: ${maps.words.join(" ").slice(0, 80)}` },
    words, readout,
    el("div", { className: "choices" },
      maps.layers.length > 1 ? el("label", {}, "Layer", layers) : null,
      layered ? el("label", {}, "Feature", slider, shown) : null,
      el("button", { type: "button", onclick: save }, "Save as PNG")),
    heads, legend);
  function save() {
    const many = maps.words.length > MOST_NAMES, lines = [heading, maps.prediction];
    for (let start = 0; start < maps.words.length; start += 20)
      lines.push(maps.words.slice(start, start + 20).map((word, place) => many ? `${start + place + 1} ${word}` : word).join(" "));
    if (layered) lines.push(legend.textContent.split(". ").filter(text => text.startsWith("Darkest")).join("") + ".");
    picture(lines.filter(Boolean).map(text => text.length > 240 ? text.slice(0, 239) + "\u2026" : text), charts).toBlob(blob => {
      const address = URL.createObjectURL(blob), name = `${heading} ${maps.words.slice(0, 5).join(" ")}`.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
      el("a", { href: address, download: `${name || "attention"}.png` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 1000);
    });
  }
  limit();
  redraw();
  node.redraw = redraw;
  const sameWords = others => others.length === maps.words.length && others.every((word, at) => word === maps.words[at]);
  return {
    node,
    mark: (place, others) => { if (sameWords(others)) choose(place, false); },
    show: feature => { state.feature = feature; limit(); redraw(); },
  };
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.querySelectorAll(".attention").forEach(node => node.redraw()));
