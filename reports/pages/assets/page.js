"use strict";
(() => {
const D = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);
const root = document.documentElement;
const css = name => getComputedStyle(root).getPropertyValue(name).trim();
const darkQuery = window.matchMedia("(prefers-color-scheme: dark)");
// Printed pages are always light.
const isDark = () => darkQuery.matches && !root.classList.contains("printing");

// The data contains each name and each list of steps only once.
for (const run of D.runs) {
    run.step = D.steps[run.step];
    if (run.heat) {
        const h = run.heat, columns = h.step.length;
        h.site = h.site.map(i => D.names[i]); h.format = h.format.map(i => D.names[i]);
        for (const key of ["underflow", "to_subnormal", "overflow", "saturated", "zero_in", "not_finite"]) {
            const rows = h[key], cells = new Array(h.site.length * columns).fill(0);
            for (const [site, ...row] of rows) row.forEach((ppm, c) => { cells[site * columns + c] = ppm; });
            h[key] = cells;
        }
    }
    if (run.exps) {
        run.exps = run.exps.map(list => Object.fromEntries(D.exponent_fields.map((name, i) => [name, list[i]])));
        for (const e of run.exps) { e.site = D.names[e.site]; e.format = D.names[e.format]; e.scale = [e.scale_min, e.scale_max]; }
    }
}

// The colours of Okabe and Ito, which colour-blind readers can distinguish. The baseline has the colour of the text.
// Dashes and marks distinguish policies without colours: neighbours differ in both.
const palette = {
    light: ["#0072b2", "#d55e00", "#009e73", "#b8529a", "#b87d00", "#2a8fd3", "#7a5c3e"],
    dark: ["#56b4e9", "#ff8a4c", "#2fc99c", "#e79ac8", "#f0c94a", "#9ecbff", "#c9a27e"],
};
const dashes = [[], [8, 3], [2, 2], [9, 3, 2, 3], [14, 4]];
const marks = ["circle", "rect", "triangle", "rectRot", "cross", "star"];
const order = D.policies.map((p, i) => ({p, i})).filter(x => !x.p.baseline).map(x => x.i);
const cycle = (list, i) => list[order.indexOf(i) % list.length];
const colour = i => D.policies[i].baseline ? css("--ink") : cycle(isDark() ? palette.dark : palette.light, i);
const dash = i => D.policies[i].baseline ? [] : cycle(dashes, i);
const mark = i => D.policies[i].baseline ? false : cycle(marks, i);
const alpha = (hex, a) => {
    const n = parseInt(hex.slice(1), 16);
    return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${a})`;
};

const hidden = new Set();
let seed = "all";
const draws = [];
const redraw = () => draws.forEach(draw => draw());
const runsOf = i => D.runs.filter(r => r.policy === i && (seed === "all" || r.seed === seed));
const shown = () => D.policies.map((p, i) => i).filter(i => !hidden.has(i));
/** Describes in words what a chart shows. Its picture and the printed page need this, because they have no menus. */
const said = {};
const say = (id, text) => {
    said[id] = text;
    const figure = at(id).closest("figure");
    let line = figure.querySelector(".said");
    if (!line) {
        line = document.createElement("p");
        line.className = "said";
        figure.querySelector("figcaption").after(line);
    }
    line.textContent = text;
};
const seedWords = () => seeds.length < 2 ? (seeds.length ? `seed ${seeds[0]}` : "") : seed === "all" ? `mean of ${seeds.length} seeds` : `seed ${seed}`;
const optionWords = id => at(id).selectedOptions.length ? at(id).selectedOptions[0].textContent : "";

// ---- the bar -------------------------------------------------------------------------------------------------------
const shapes = {
    circle: '<circle cx="13" cy="6" r="3.4"/>', rect: '<rect x="10" y="3" width="6" height="6"/>', triangle: '<path d="M13 2l4 7H9z"/>',
    rectRot: '<path d="M13 1.5l4.5 4.5-4.5 4.5L8.5 6z"/>', cross: '<path d="M13 1.5v9M8.5 6h9" stroke-width="2"/>',
    star: '<path d="M13 1.5v9M8.5 6h9M10 3l6 6M16 3l-6 6" stroke-width="1.5"/>',
};
const swatch = i => {
    const box = document.createElement("span");
    box.innerHTML = `<svg width="26" height="12" aria-hidden="true"><g stroke="${colour(i)}" fill="${colour(i)}"><line x1="0" x2="26" y1="6" y2="6" ` +
                    `stroke-width="${D.policies[i].baseline ? 3 : 2.2}" stroke-dasharray="${dash(i).join(" ")}"/>${mark(i) ? shapes[mark(i)] : ""}</g></svg>`;
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
        const place = row.querySelector(".swatch");
        if (place) place.replaceChildren(swatch(i));
    });
};
draws.push(drawBar);
const seeds = [...new Set(D.runs.map(r => r.seed))].sort((a, b) => a - b);
at("seed").append(...(seeds.length > 1 ? [new Option(`all ${seeds.length} (mean)`, "all")] : []),
                  ...seeds.map(s => new Option(String(s), String(s))));
if (seeds.length === 1) seed = seeds[0];
at("seed").parentElement.hidden = seeds.length < 2;
at("seed").onchange = () => { seed = at("seed").value === "all" ? "all" : Number(at("seed").value); redraw(); };

// ---- shared by all charts ------------------------------------------------------------------------------------------
const hasChart = typeof Chart !== "undefined";
const charts = {};
const number = (y, digits = 4) => y === 0 ? "0" : Math.abs(y) >= 1e5 || Math.abs(y) < 1e-4 ? y.toExponential(2) : y.toFixed(digits);
const raised = n => "2" + String(n).replace(/./g, c => ({"-": "⁻"})[c] || "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)]);
const percent = ppm => ppm === 0 ? "0 %" : ppm >= 1e4 ? (ppm / 1e4).toFixed(1) + " %" : (ppm / 1e4).toPrecision(2) + " %";
const named = item => `${item.dataset.label}: ${number(item.parsed.y)}`;
const fill = (select, options, keep) => {
    select.replaceChildren(...options.map(([text, value]) => new Option(text, value)));
    if (options.some(([, value]) => String(value) === String(keep))) select.value = keep;
};
const font = (size, weight = "") => `${weight} ${size}px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif`;
/** Returns `text`, shortened if it is wider than `width`. */
const fitted = (ctx, text, width) => {
    if (ctx.measureText(text).width <= width) return text;
    let n = text.length;
    while (n > 1 && ctx.measureText(text.slice(0, n) + "…").width > width) --n;
    return text.slice(0, n) + "…";
};

/** Names at the ends of lines. Lines that end at the same place share a label, and a note lists their names. */
const endLabels = {id: "endLabels", afterDatasetsDraw(chart) {
    const {ctx, chartArea: a, width} = chart, ends = [];
    chart.data.datasets.forEach((set, k) => {
        if (set.end === undefined) return;
        const drawn = chart.getDatasetMeta(k).data.filter(p => Number.isFinite(p.y) && !p.skip && p.x <= a.right + 1);
        const last = drawn[drawn.length - 1];
        if (last && last.y >= a.top - 2 && last.y <= a.bottom + 2) ends.push({y: last.y, set});
    });
    ends.sort((p, q) => p.y - q.y);
    const groups = [];
    for (const end of ends) {
        const group = groups[groups.length - 1];
        if (group && end.y - group.y < 4) group.sets.push(end.set); else groups.push({y: end.y, sets: [end.set]});
    }
    const high = 13, room = width - a.right - 16;
    groups.forEach((g, k) => { g.at = Math.max(g.y, k ? groups[k - 1].at + high : a.top + 4); });
    for (let k = groups.length - 1, most = a.bottom; k >= 0; --k) { groups[k].at = Math.min(groups[k].at, most); most = groups[k].at - high; }
    ctx.save();
    ctx.font = font(11); ctx.textAlign = "left"; ctx.textBaseline = "middle";
    for (const g of groups) {
        const first = g.sets.find(set => set.isBaseline) || g.sets[0], more = g.sets.length - 1;
        const tail = more ? ` +${more}` : "";
        ctx.strokeStyle = first.borderColor; ctx.lineWidth = 2; ctx.setLineDash([]);
        ctx.beginPath(); ctx.moveTo(a.right + 1, g.y); ctx.lineTo(a.right + 9, g.at); ctx.stroke();
        ctx.fillStyle = css("--ink");
        ctx.fillText(fitted(ctx, first.end, room - ctx.measureText(tail).width) + tail, a.right + 12, g.at);
    }
    ctx.restore();
    const note = at(`${chart.canvas.id}-ends`);
    if (note) {
        const joined = groups.filter(g => g.sets.length > 1).map(g => g.sets.map(set => set.end).join(", "));
        note.textContent = joined.length ? `Curves with the same end: ${joined.join("; and ")}.` : "";
    }
}};
/** Returns the width that the names need next to the chart; 0 if no line has a name. */
const labelRoom = (id, datasets) => {
    const ctx = at(id).getContext("2d"), whole = at(id).parentElement.clientWidth || 600, names = datasets.filter(set => set.end !== undefined).map(set => set.end);
    ctx.font = font(11);
    return names.length ? Math.min(.3 * whole, 44 + Math.max(...names.map(name => ctx.measureText(name).width))) : 0;
};

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
        interaction: {mode: "nearest", axis: "x", intersect: false, ...options.interaction},
        layout: {padding: {right: labelRoom(id, built.datasets)}},
        elements: {point: {radius: 0, hitRadius: 6}, line: {borderWidth: 1.8, tension: 0}},
        plugins: {legend: {display: false}, ...options.plugins,
                  tooltip: {filter: item => !item.dataset.silent, itemSort: (a, b) => b.parsed.y - a.parsed.y,
                            callbacks: {title: items => items.length ? "step " + items[0].parsed.x.toLocaleString("en") : "",
                                        ...options.tooltip}}},
        scales: {x: axis(options.x || "optimiser step", built.xMore), y: axis(options.y, built.yMore || options.yMore)},
    };
    if (charts[id]) charts[id].destroy();
    charts[id] = new Chart(at(id), {type: options.type || "line", data: built, options: all,
                                    plugins: [...(options.inline || []), endLabels]});
    walkable(id);
});

/** The arrow keys move from point to point, as the pointer does, and announce the values of the point. */
const places = {};
const walkable = id => {
    const canvas = at(id);
    if (canvas.tabIndex === 0) return;
    canvas.tabIndex = 0;
    canvas.addEventListener("keydown", event => {
        const chart = charts[id], found = new Map(), alongY = chart.options.interaction.axis === "y";
        chart.data.datasets.forEach((set, datasetIndex) => {
            if (set.silent) return;
            set.data.forEach((p, index) => {
                const element = chart.getDatasetMeta(datasetIndex).data[index];
                if (!element || !Number.isFinite(element.y) || !Number.isFinite(element.x)) return;
                const where = Math.round(alongY ? element.y : element.x);
                found.set(where, [...(found.get(where) || []), {datasetIndex, index}]);
            });
        });
        const stops = [...found.keys()].sort((a, b) => a - b), last = stops.length - 1;
        const now = places[id] === undefined ? -1 : stops.indexOf(places[id]);
        const next = {ArrowRight: now + 1, ArrowDown: now + 1, ArrowLeft: now < 0 ? last : now - 1, ArrowUp: now < 0 ? last : now - 1,
                      PageDown: now + 10, PageUp: now - 10, Home: 0, End: last, Escape: -1}[event.key];
        if (next === undefined || last < 0) return;
        event.preventDefault();
        const active = event.key === "Escape" ? [] : found.get(places[id] = stops[Math.max(0, Math.min(last, next))]);
        chart.setActiveElements(active);
        chart.tooltip.setActiveElements(active, {x: 0, y: 0});
        chart.update("none");
        const tip = chart.tooltip;
        at("told").textContent = active.length ? [...(tip.title || []), ...(tip.body || []).flatMap(b => b.lines)].join("; ") : "";
    });
    canvas.addEventListener("blur", () => {
        delete places[id];
        charts[id].setActiveElements([]);
        charts[id].tooltip.setActiveElements([], {x: 0, y: 0});
        charts[id].update("none");
    });
};

@policies.js@
@curves.js@
@sites.js@
@exponents.js@
@gemm.js@
@pictures.js@
})();
