"use strict";
(() => {
const D = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const darkQuery = window.matchMedia("(prefers-color-scheme: dark)");
const isDark = () => darkQuery.matches;

// Okabe and Ito's colours, told apart by colour-blind readers; the baseline is ink. Dashes tell a second round apart.
const palette = {
    light: ["#0072b2", "#d55e00", "#009e73", "#b8529a", "#b87d00", "#2a8fd3", "#7a5c3e"],
    dark: ["#56b4e9", "#ff8a4c", "#2fc99c", "#e79ac8", "#f0c94a", "#9ecbff", "#c9a27e"],
};
const dashes = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
const order = D.policies.map((p, i) => ({p, i})).filter(x => !x.p.baseline).map(x => x.i);
const colour = i => {
    if (D.policies[i].baseline) return css("--ink");
    const list = isDark() ? palette.dark : palette.light;
    return list[order.indexOf(i) % list.length];
};
const dash = i => D.policies[i].baseline ? [] : dashes[Math.floor(order.indexOf(i) / palette.light.length) % dashes.length];
const alpha = (hex, a) => {
    const n = parseInt(hex.slice(1), 16);
    return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${a})`;
};

const hidden = new Set();
let seed = "all";
const draws = [];
const redraw = () => draws.forEach(draw => draw());
const runsOf = i => D.runs.filter(r => r.policy === i && (seed === "all" || r.seed === seed));

// ---- the bar -------------------------------------------------------------------------------------------------------
const swatch = i => {
    const box = document.createElement("span");
    box.innerHTML = `<svg width="26" height="10" aria-hidden="true"><line x1="0" x2="26" y1="5" y2="5" stroke="${colour(i)}" ` +
                    `stroke-width="${D.policies[i].baseline ? 3 : 2.5}" stroke-dasharray="${dash(i).join(" ")}"/></svg>`;
    return box;
};
const drawBar = () => {
    at("chips").replaceChildren(...D.policies.map((p, i) => {
        const chip = document.createElement("button");
        chip.type = "button"; chip.className = "chip";
        chip.setAttribute("aria-pressed", String(!hidden.has(i)));
        chip.append(swatch(i), p.name);
        chip.onclick = () => {
            if (!hidden.delete(i)) hidden.add(i);
            redraw();
            at("chips").children[i].focus();
        };
        return chip;
    }));
    document.querySelectorAll("#summary tr[data-policy]").forEach(row => {
        const i = Number(row.dataset.policy);
        row.classList.toggle("off", hidden.has(i));
        const mark = row.querySelector(".swatch");
        if (mark) mark.replaceChildren(swatch(i));
    });
};
draws.push(drawBar);
const seeds = [...new Set(D.runs.map(r => r.seed))].sort((a, b) => a - b);
at("seed").append(...(seeds.length > 1 ? [new Option(`all ${seeds.length} (mean)`, "all")] : []),
                  ...seeds.map(s => new Option(String(s), String(s))));
if (seeds.length === 1) seed = seeds[0];
at("seed").onchange = () => { seed = at("seed").value === "all" ? "all" : Number(at("seed").value); redraw(); };

// ---- curves --------------------------------------------------------------------------------------------------------
const hasChart = typeof Chart !== "undefined";
const charts = {};
const plot = (id, options, build) => draws.push(() => {
    if (!hasChart) {
        at(id).parentElement.textContent = "This page was made by a program built without Chart.js.";
        return;
    }
    const built = build();
    const text = css("--quiet"), line = css("--line");
    const axis = (title, more = {}) => ({
        type: "linear", title: {display: true, text: title, color: text}, ticks: {color: text, maxRotation: 0},
        grid: {color: line}, ...more});
    const all = {
        responsive: true, maintainAspectRatio: false, animation: false, normalized: true,
        interaction: {mode: "nearest", axis: "x", intersect: false},
        elements: {point: {radius: 0, hitRadius: 6}, line: {borderWidth: 1.8, tension: 0}},
        plugins: {legend: {display: false}, ...options.plugins,
                  tooltip: {filter: item => !item.dataset.silent, itemSort: (a, b) => b.parsed.y - a.parsed.y,
                            callbacks: {title: items => items.length ? "step " + items[0].parsed.x.toLocaleString("en") : "",
                                        ...options.tooltip}}},
        scales: {x: axis("optimiser step", built.xMore), y: axis(options.y, built.yMore || options.yMore)},
    };
    if (charts[id]) charts[id].destroy();
    charts[id] = new Chart(at(id), {type: options.type || "line", data: built, options: all, plugins: options.inline || []});
});

/** Mean over the chosen runs of policy i at each step, with the least and the greatest. */
const meanOf = (i, key, group) => {
    const sums = new Map();
    for (const run of runsOf(i)) {
        const from = group ? run[group] : run;
        if (!from || !from[key]) continue;
        from.step.forEach((x, k) => {
            const y = from[key][k];
            if (y === null || y === undefined) return;
            const s = sums.get(x) || {x, sum: 0, n: 0, low: y, high: y};
            s.sum += y; s.n += 1; s.low = Math.min(s.low, y); s.high = Math.max(s.high, y);
            sums.set(x, s);
        });
    }
    return [...sums.values()].sort((a, b) => a.x - b.x).map(s => ({x: s.x, y: s.sum / s.n, low: s.low, high: s.high, n: s.n}));
};
const curve = (i, key) => ({label: D.policies[i].name, data: meanOf(i, key), borderColor: colour(i), backgroundColor: colour(i),
                            borderDash: dash(i), borderWidth: D.policies[i].baseline ? 2.6 : 1.8,
                            order: D.policies[i].baseline ? 5 : 3});
const shown = () => D.policies.map((p, i) => i).filter(i => !hidden.has(i));
// Most of a training curve is its tail: leave the fall from the start out of the default range of y.
const tailRange = (sets, least) => {
    const ys = [];
    for (const set of sets) for (const p of set.data) if (p.x >= least && Number.isFinite(p.y)) ys.push(p.y);
    return ys.length ? [Math.min(...ys), Math.max(...ys)] : null;
};
const number = (y, digits = 4) => y === 0 ? "0" : Math.abs(y) >= 1e5 || Math.abs(y) < 1e-4 ? y.toExponential(2) : y.toFixed(digits);
const named = item => `${item.dataset.label}: ${number(item.parsed.y)}`;

plot("loss", {y: "loss (nats per token)", tooltip: {label: named}}, () => {
    const sets = shown().map(i => curve(i, at("loss-raw").checked ? "loss" : "loss_ema"));
    for (const i of shown()) {
        const data = meanOf(i, "loss", "evals");
        if (data.length) sets.push({label: D.policies[i].name + ", held out", data, showLine: false, borderColor: colour(i),
                                    backgroundColor: css("--panel"), pointRadius: 4, borderWidth: 1.8, order: 1});
    }
    const floor = [];
    for (const i of D.policies.keys()) for (const p of meanOf(i, "floor", "evals")) floor.push(p);
    if (floor.length) {
        const xs = D.runs.flatMap(r => r.step.length ? [r.step[0], r.step[r.step.length - 1]] : []);
        const y = floor.reduce((sum, p) => sum + p.y, 0) / floor.length;
        sets.push({label: "entropy floor", data: [{x: Math.min(...xs), y}, {x: Math.max(...xs), y}], borderColor: css("--quiet"),
                   borderDash: [6, 5], borderWidth: 1.6, order: 9});
    }
    if (!at("loss-zoom").checked) return {datasets: sets};
    const half = .5 * Math.max(0, ...D.runs.flatMap(r => r.step.slice(-1)));
    const range = tailRange(sets.filter(set => set.label !== "entropy floor"), half);
    if (!range) return {datasets: sets};
    const pad = .08 * (range[1] - range[0]) || 1e-3;
    return {datasets: sets, xMore: {min: half}, yMore: {min: range[0] - pad, max: range[1] + pad, ticks: {color: css("--quiet"), includeBounds: false}}};
});
at("loss-raw").onchange = at("loss-zoom").onchange = redraw;

plot("gap", {y: "loss − fp32 loss (nats per token)", tooltip: {label: named}}, () => {
    const key = at("gap-raw").checked ? "gap" : "gap_ema", sets = [];
    const lines = shown().filter(i => !D.policies[i].baseline).map(i => curve(i, key)).filter(set => set.data.length);
    const margin = [];
    for (const i of D.policies.keys()) {
        if (D.policies[i].baseline) for (const p of meanOf(i, "loss_ema")) margin.push({x: p.x, y: D.margin * p.y});
    }
    if (margin.length) {
        const band = {borderWidth: 0, backgroundColor: alpha("#808a99", isDark() ? .28 : .2), silent: true, order: 9};
        sets.push({...band, label: `+${100 * D.margin} %`, data: margin, fill: "+1"},
                  {...band, label: `−${100 * D.margin} %`, data: margin.map(p => ({x: p.x, y: -p.y})), fill: false});
    }
    for (const set of lines) {
        sets.push(set);
        if (set.data.some(p => p.n > 1)) {
            const edge = {borderWidth: 0, silent: true, order: 7, backgroundColor: alpha(set.borderColor, .13)};
            sets.push({...edge, label: "high", data: set.data.map(p => ({x: p.x, y: p.high})), fill: "+1"},
                      {...edge, label: "low", data: set.data.map(p => ({x: p.x, y: p.low})), fill: false});
        }
    }
    // One diverged policy must not flatten the others: the axis follows the policies that did not diverge, and the band.
    const calm = lines.filter(set => D.policies.find(p => p.name === set.label).verdict !== "diverged");
    const last = Math.max(0, ...D.runs.flatMap(r => r.step.slice(-1)));
    const range = tailRange(calm.length ? calm : lines, last * .1), edge = margin.length ? margin[margin.length - 1].y : 0;
    if (!range) return {datasets: sets};
    if (at("gap-zoom").checked && edge > 0) {
        const most = .01 / D.margin * edge;
        return {datasets: sets, yMore: {min: -most, max: most, ticks: {color: css("--quiet"), includeBounds: false, callback: y => number(y)}}};
    }
    const low = Math.min(range[0], -edge), high = Math.max(range[1], edge), pad = .15 * (high - low) || 1e-3;
    return {datasets: sets, yMore: {min: low - pad, max: high + pad, ticks: {color: css("--quiet"), includeBounds: false, callback: y => number(y)}}};
});
at("gap-raw").onchange = at("gap-zoom").onchange = redraw;

const raised = n => "2" + String(n).replace(/./g, c => ({"-": "⁻"})[c] || "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)]);
plot("scale", {y: "loss scale", yMore: {ticks: {precision: 0, callback: y => Number.isInteger(y) ? raised(y) : ""}},
               tooltip: {label: item => `${item.dataset.label}: ${(2 ** item.parsed.y).toLocaleString("en")}`}}, () => {
    const sets = [], skips = [];
    for (const i of shown()) {
        const run = runsOf(i)[0];
        if (!run || !run.step.length || !(run.scale.length > 1 || run.skipped.length || run.scale.some(s => s[1] !== 1))) continue;
        const data = run.scale.map(s => ({x: s[0], y: Math.log2(s[1])}));
        data.push({x: run.step[run.step.length - 1], y: data[data.length - 1].y});
        sets.push({...curve(i, "loss"), data, stepped: "before"});
        skips.push({label: D.policies[i].name + ", skipped", data: run.skipped.map(s => ({x: s[0], y: Math.log2(s[1])})),
                    showLine: false, pointStyle: "crossRot", pointRadius: 7, borderWidth: 2.2, borderColor: colour(i), order: 1});
        if (run.skipped.length) skips[skips.length - 1].count = run.skipped.length;
    }
    const told = skips.filter(s => s.count).map(s => `${s.label.slice(0, -", skipped".length)}: ${s.count} skipped`);
    at("scale-note").textContent = sets.length === 0
        ? "No policy that is shown used a loss scale."
        : `The scale used in each step${seed === "all" ? ", first seed" : ""}. ${told.length ? told.join("; ") + "." : "No step was skipped."}`;
    at("scale").parentElement.style.display = sets.length ? "" : "none";
    return {datasets: [...sets, ...skips]};
});
plot("lost", {y: "weights per step", yMore: {beginAtZero: true}, tooltip: {label: item => `${item.dataset.label}: ${item.parsed.y.toLocaleString("en")}`}},
     () => ({datasets: shown().map(i => curve(i, "lost"))}));
plot("eff", {y: "moved / meant to move", tooltip: {label: named}},
     () => ({datasets: shown().map(i => curve(i, "eff")), yMore: {suggestedMin: .98, suggestedMax: 1.005}}));

// ---- heat map ------------------------------------------------------------------------------------------------------
const metrics = {underflow: "underflow (nonzero to zero)", to_subnormal: "to subnormal (fewer digits)", overflow: "overflow (beyond the largest)",
                 saturated: "saturated (on the top code)", zero_in: "zeros coming in"};
const ramp = {light: [[255, 244, 204], [247, 190, 88], [222, 110, 50], [150, 40, 70], [50, 12, 60]],
              dark: [[44, 38, 84], [112, 44, 120], [196, 70, 92], [247, 148, 62], [255, 240, 170]]};
/** Colour of a rate in parts per million, on a logarithmic ramp from 1 ppm to 100 %. */
const heatColour = ppm => {
    if (ppm === null) return css("--panel");
    if (ppm <= 0) return css("--none");
    const list = isDark() ? ramp.dark : ramp.light, t = Math.min(1, Math.log10(ppm) / 6) * (list.length - 1);
    const k = Math.min(list.length - 2, Math.floor(t)), f = t - k;
    return `rgb(${list[k].map((c, n) => Math.round(c + f * (list[k + 1][n] - c))).join(",")})`;
};
const percent = ppm => ppm === 0 ? "0 %" : ppm >= 1e4 ? (ppm / 1e4).toFixed(1) + " %" : (ppm / 1e4).toPrecision(2) + " %";
const withRows = key => D.policies.map((p, i) => i).filter(i => D.runs.some(r => r.policy === i && r[key]));
const fill = (select, options, keep) => {
    select.replaceChildren(...options.map(([text, value]) => new Option(text, value)));
    if (options.some(([, value]) => String(value) === String(keep))) select.value = keep;
};
const heatPolicies = withRows("heat");
const runWith = (i, key) => runsOf(i).find(r => r[key]) || D.runs.find(r => r.policy === i && r[key]);
// Start where there is something to see.
const rateSum = i => { const h = runWith(i, "heat").heat; return h.underflow.reduce((a, b) => a + (b || 0), 0); };
fill(at("heat-policy"), heatPolicies.map(i => [D.policies[i].name, i]),
     heatPolicies.length ? heatPolicies.reduce((a, b) => rateSum(b) > rateSum(a) ? b : a) : "");
fill(at("heat-metric"), Object.entries(metrics).map(([key, text]) => [text, key]), "underflow");
let heatHit = null;
const drawHeat = () => {
    const canvas = at("heat"), scroll = canvas.parentElement, policy = Number(at("heat-policy").value);
    const run = heatPolicies.length ? runWith(policy, "heat") : null;
    scroll.style.display = at("heat-controls").style.display = run ? "" : "none";
    if (!run) { at("heat-note").textContent = "No site was sampled in these runs."; return; }
    const h = run.heat, metric = at("heat-metric").value, columns = h.step.length, cell = (s, c) => h[metric][s * columns + c];
    const wanted = at("heat-filter").value.trim().toLowerCase();
    const rows = h.site.map((name, s) => ({name, s, worst: Math.max(0, ...h.step.map((x, c) => cell(s, c) || 0))}))
        .filter(r => (!wanted || r.name.toLowerCase().includes(wanted)) && (at("heat-all").checked || r.worst > 0));
    const g = canvas.getContext("2d"), ratio = window.devicePixelRatio || 1, font = "12px ui-monospace, DejaVu Sans Mono, monospace";
    g.font = font;
    const label = Math.min(360, 12 + Math.max(60, ...rows.map(r => g.measureText(r.name).width)));
    const width = Math.max(scroll.clientWidth - 2, label + columns * 5), high = 16, top = 22, height = top + rows.length * high + 4;
    canvas.width = width * ratio; canvas.height = height * ratio;
    canvas.style.width = width + "px"; canvas.style.height = height + "px";
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.fillStyle = css("--paper"); g.fillRect(0, 0, width, height);
    g.font = font; g.textBaseline = "middle";
    const wide = (width - label - 8) / columns;
    g.fillStyle = css("--quiet"); g.textAlign = "right"; g.fillText("step", label - 6, 11);
    g.textAlign = "left";
    for (let c = 0, free = 0; c < columns; ++c) {
        const x = label + c * wide, text = String(h.step[c]);
        if (x < free) continue;
        g.fillText(text, Math.min(x, width - g.measureText(text).width - 4), 11);
        free = x + g.measureText(text).width + 16;
    }
    rows.forEach((r, k) => {
        const y = top + k * high;
        g.fillStyle = css("--ink"); g.textAlign = "right";
        g.fillText(r.name, label - 6, y + high / 2, label - 10);
        for (let c = 0; c < columns; ++c) {
            const ppm = cell(r.s, c);
            g.fillStyle = heatColour(ppm);
            const x = Math.round(label + c * wide), next = Math.round(label + (c + 1) * wide);
            g.fillRect(x, y + 1, Math.max(1, next - x - (wide > 6 ? 1 : 0)), high - 2);
        }
    });
    heatHit = {rows, h, label, wide, top, high, metric, columns, cell};
    at("heat-legend").replaceChildren(...[["0", 0], ["0.001 %", 10], ["0.01 %", 100], ["0.1 %", 1e3], ["1 %", 1e4], ["10 %", 1e5], ["100 %", 1e6]]
        .map(([text, ppm]) => {
            const span = document.createElement("span"), box = document.createElement("i");
            box.style.background = heatColour(ppm);
            span.append(box, text);
            return span;
        }));
    at("heat-note").textContent = `Share of the elements cast at that site, seed ${run.seed}. ` +
        (h.per_column > 1 ? `Each column joins ${h.per_column} sampled steps. ` : "") +
        (rows.length ? `${rows.length} of ${h.site.length} sites.` : `Nothing of this kind happened at any of the ${h.site.length} sites.`);
    const worst = [...rows].filter(r => r.worst > 0).sort((a, b) => b.worst - a.worst).slice(0, 5);
    const table = document.createElement("table");
    if (worst.length) {
        const put = (row, kind, text, n) => { const c = row.appendChild(document.createElement(kind)); c.textContent = text; if (n) c.className = "n"; };
        const head = table.createTHead().insertRow(), body = table.createTBody();
        put(head, "th", "highest"); put(head, "th", "format"); put(head, "th", "rate", true); put(head, "th", "at step", true);
        for (const r of worst) {
            const row = body.insertRow(), c = h.step.findIndex((x, k) => cell(r.s, k) === r.worst);
            put(row, "td", r.name); put(row, "td", h.format[r.s]); put(row, "td", percent(r.worst), true); put(row, "td", h.step[c], true);
        }
    }
    at("heat-worst").replaceChildren(...(worst.length ? [table] : []));
};
draws.push(drawHeat);
for (const id of ["heat-policy", "heat-metric", "heat-all"]) at(id).onchange = drawHeat;
at("heat-filter").oninput = drawHeat;
at("heat").onmousemove = event => {
    const tip = at("tip");
    tip.hidden = true;
    if (!heatHit) return;
    const {rows, h, label, wide, top, high, columns, cell} = heatHit;
    const c = Math.floor((event.offsetX - label) / wide), row = rows[Math.floor((event.offsetY - top) / high)];
    if (!row || c < 0 || c >= columns || event.offsetY < top) return;
    const all = Object.keys(metrics).map(m => `${m.replace("_", " ")}: ${h[m][row.s * columns + c] === null ? "not sampled" : percent(h[m][row.s * columns + c])}`);
    tip.textContent = `${row.name} (${h.format[row.s]}), step ${h.step[c]}\n${all.join("\n")}`;
    tip.hidden = false;
    tip.style.left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 8) + "px";
};
at("heat").onmouseleave = () => { at("tip").hidden = true; };

// ---- exponents -----------------------------------------------------------------------------------------------------
const expPolicies = withRows("exps");
const expRun = () => expPolicies.length ? runWith(Number(at("exp-policy").value), "exps") : null;
const unique = list => [...new Set(list)];
const worstSite = run => {
    const h = run && run.heat, sites = h ? h.site.map((name, s) => ({name, sum: h.step.reduce((sum, x, c) => sum + (h.underflow[s * h.step.length + c] || 0), 0)})) : [];
    const recorded = sites.filter(s => run.exps.some(e => e.site === s.name));
    return recorded.length ? recorded.reduce((a, b) => b.sum > a.sum ? b : a).name : "";
};
const fillSites = () => {
    const run = expRun();
    fill(at("exp-site"), run ? unique(run.exps.map(e => e.site)).map(s => [s, s]) : [], at("exp-site").value || worstSite(run));
    fillSteps();
};
const fillSteps = () => {
    const run = expRun();
    const steps = run ? unique(run.exps.filter(e => e.site === at("exp-site").value).map(e => e.step)) : [];
    fill(at("exp-step"), steps.map(s => [s, s]), at("exp-step").value || steps[steps.length - 1]);
};
fill(at("exp-policy"), expPolicies.map(i => [D.policies[i].name, i]), at("heat-policy").value);
fillSites();
/** The histogram's format and its window in units of log2|x|: subnormal from `low`, normal from `normal` to `high`. */
const windowOf = e => {
    const f = D.formats[e.format.split(/[/:]/)[0]];
    return f && {low: f.least + Math.log2(e.scale[0]), normal: f.normal + Math.log2(e.scale[0]),
                 high: Math.log2(f.largest) + Math.log2(e.scale[1])};
};
const shading = {id: "shading", beforeDatasetsDraw(chart) {
    const w = chart.options.plugins.shading.window, first = chart.options.plugins.shading.first;
    if (!w) return;
    const {ctx, chartArea: a, scales: {x}} = chart, step = x.getPixelForValue(2) - x.getPixelForValue(1);
    // Index 0 is the bar of zeros; the left edge of the bar of exponent e stands for the number 2^e.
    const pixel = v => Math.min(a.right, Math.max(a.left, x.getPixelForValue(1) + (v - first - .5) * step));
    const box = (from, to, shade, text) => {
        if (to - from < 1) return;
        ctx.fillStyle = shade; ctx.fillRect(from, a.top, to - from, a.bottom - a.top);
        ctx.fillStyle = css("--quiet"); ctx.font = "11px system-ui, sans-serif"; ctx.textAlign = "center";
        if (ctx.measureText(text).width < to - from - 4) ctx.fillText(text, (from + to) / 2, a.top + 12);
    };
    ctx.save();
    box(pixel(w.low), pixel(w.normal), alpha("#8a94a6", .16), "subnormal");
    box(pixel(w.normal), pixel(w.high), alpha("#8a94a6", .34), "normal");
    ctx.restore();
}};
draws.push(() => {
    const run = expRun(), note = at("exp-note");
    const e = run && run.exps.find(x => x.site === at("exp-site").value && String(x.step) === at("exp-step").value);
    at("exp").parentElement.style.display = e ? "" : "none";
    at("exp-controls").style.display = expPolicies.length ? "" : "none";
    if (!e) { note.textContent = "No exponents were recorded in these runs."; return; }
    if (!hasChart) { at("exp").parentElement.textContent = "This page was made by a program built without Chart.js."; return; }
    const w = windowOf(e), text = css("--quiet"), line = css("--line"), log = at("exp-log").checked;
    // A window's edge is worth seeing: reach for it when it is near.
    const from = Math.min(e.first, w ? Math.max(Math.floor(w.low) - 2, e.first - 12) : e.first);
    const last = e.first + e.counts.length - 1, to = Math.max(last, w ? Math.min(Math.ceil(w.high) + 1, last + 12) : last);
    const labels = ["zero"], counts = [e.zero];
    for (let k = from; k <= to; ++k) { labels.push(String(k)); counts.push(e.counts[k - e.first] || 0); }
    if (e.inf || e.nan) { labels.push("inf", "nan"); counts.push(e.inf, e.nan); }
    const total = counts.reduce((a, b) => a + b, 0) || 1;
    const list = isDark() ? palette.dark : palette.light;
    const shade = (k, n) => {
        if (n === 0) return css("--quiet");
        if (k > to) return list[3];
        if (!w) return list[0];
        // Half of the least subnormal rounds to zero.
        return k + 1 <= w.low - 1 ? list[1] : k < w.normal ? list[4] : k >= w.high ? list[3] : list[0];
    };
    if (charts.exp) charts.exp.destroy();
    charts.exp = new Chart(at("exp"), {
        type: "bar", plugins: [shading],
        data: {labels, datasets: [{data: counts.map(c => 100 * c / total), backgroundColor: labels.map((l, n) => shade(from + n - 1, n)),
                                   categoryPercentage: 1, barPercentage: .9, minBarLength: 0}]},
        options: {responsive: true, maintainAspectRatio: false, animation: false,
                  plugins: {legend: {display: false}, shading: {window: w, first: from},
                            tooltip: {callbacks: {title: items => /^-?\d+$/.test(items[0].label) ? `${raised(items[0].label)} ≤ |x| < ${raised(Number(items[0].label) + 1)}` : items[0].label,
                                                  label: item => `${counts[item.dataIndex].toLocaleString("en")} elements, ${item.parsed.y.toPrecision(3)} %`}}},
                  scales: {x: {title: {display: true, text: "exponent, floor(log2|x|), before scaling", color: text}, ticks: {color: text, maxRotation: 0, autoSkipPadding: 6}, grid: {display: false}},
                           y: {type: log ? "logarithmic" : "linear", title: {display: true, text: "share of elements (%)", color: text},
                               ticks: {color: text, callback: v => log ? (/^1e/.test(v.toExponential()) ? String(v) : "") : v}, grid: {color: line},
                               ...(log ? {min: Math.max(1e-5, 50 / total)} : {beginAtZero: true})}}},
    });
    const outside = w ? counts.reduce((sum, c, n) => n && from + n - 1 <= to && from + n <= w.low - 1 ? sum + c : sum, 0) : 0;
    note.textContent = `${total.toLocaleString("en")} elements, seed ${run.seed}. ` +
        (w ? `Window of ${e.format}${e.scale[0] !== 1 || e.scale[1] !== 1 ? `, decode scale ${e.scale[0] === e.scale[1] ? number(e.scale[0], 6) : number(e.scale[0], 6) + " to " + number(e.scale[1], 6)}` : ""}: ` +
             `${percent(1e6 * outside / total)} of the elements are too small for it. ` : "") +
        "Bars: blue normal, yellow subnormal, orange too small, pink too large.";
});
at("exp-policy").onchange = () => { fillSites(); redraw(); };
at("exp-site").onchange = () => { fillSteps(); redraw(); };
for (const id of ["exp-step", "exp-log"]) at(id).onchange = redraw;

@gemm.js@// ---- pictures ------------------------------------------------------------------------------------------------------
// A canvas has no ground of its own: a picture gets the figure's.
const picture = canvas => {
    const copy = document.createElement("canvas"), g = copy.getContext("2d");
    copy.width = canvas.width; copy.height = canvas.height;
    g.fillStyle = css("--panel"); g.fillRect(0, 0, copy.width, copy.height);
    g.drawImage(canvas, 0, 0);
    return copy.toDataURL("image/png");
};
document.querySelectorAll("figure").forEach(figure => {
    const canvas = figure.querySelector("canvas"), button = document.createElement("button");
    button.type = "button"; button.className = "save"; button.textContent = "save as PNG";
    button.dataset.chart = canvas.id;
    button.setAttribute("aria-label", `Save the chart "${figure.querySelector("figcaption b").textContent}" as PNG`);
    button.onclick = () => {
        const link = document.createElement("a");
        link.href = picture(canvas); link.download = `macheps-${canvas.id}.png`;
        link.click();
    };
    figure.querySelector("figcaption").append(" ", button);
});
// For `macheps report --png`: #picture is the page without its controls, #chart=NAME one chart that fills the window.
const wanted = location.hash.slice(1), root = document.documentElement;
if (wanted === "picture") root.classList.add("picture");
if (wanted.startsWith("chart=")) {
    root.classList.add("picture", "one-chart");
    const figure = at(wanted.slice(6))?.closest("figure");
    if (figure) {
        figure.classList.add("chosen");
        figure.closest("section").classList.add("chosen-section");
    }
}

redraw();
if (wanted) {
    const isDrawn = canvas => canvas.getClientRects().length > 0;
    root.dataset.height = root.scrollHeight;
    root.dataset.charts = [...document.querySelectorAll("figure canvas")].filter(isDrawn)
        .map(canvas => `${canvas.id}:${canvas.id === "heat" ? Math.max(560, canvas.offsetHeight + 220) : 560}`).join(" ");
}
darkQuery.addEventListener("change", redraw);
// A browser without a window may give the picture its size at the last moment.
if (wanted.startsWith("chart=")) window.addEventListener("resize", redraw);
let resizing = 0;
window.addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(drawHeat, 100); });
})();
