// ---- heat map ------------------------------------------------------------------------------------------------------
const metrics = {underflow: "underflow (nonzero to zero)", to_subnormal: "to subnormal (fewer digits)", overflow: "overflow (beyond the largest)",
                 saturated: "saturated (at the largest value)", zero_in: "zero inputs", not_finite: "NaN and infinite inputs"};
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
const withRows = key => D.policies.map((p, i) => i).filter(i => D.runs.some(r => r.policy === i && r[key]));
const heatPolicies = withRows("heat");
const runWith = (i, key) => runsOf(i).find(r => r[key]) || D.runs.find(r => r.policy === i && r[key]);
const baseline = D.policies.findIndex(p => p.baseline);
// Start with the policy that has the most underflow.
const rateSum = i => { const h = runWith(i, "heat").heat; return h.underflow.reduce((a, b) => a + (b || 0), 0); };
fill(at("heat-policy"), heatPolicies.map(i => [D.policies[i].name, i]),
     heatPolicies.length ? heatPolicies.reduce((a, b) => rateSum(b) > rateSum(a) ? b : a) : "");
fill(at("heat-metric"), Object.entries(metrics).map(([key, text]) => [text, key]), "underflow");

/** The order of the backward pass: the head, the blocks from the last to the first, the embedding, then the rest. */
const blockOf = name => {
    const block = /^block\.(\d+)\./.exec(name);
    if (block) return {order: 1e6 - Number(block[1]), text: `block ${block[1]}`};
    if (/^(loss|lm_head|final_norm)\b/.test(name)) return {order: 0, text: "head"};
    return /^(embed|position)/.test(name) ? {order: 2e6, text: "embedding"} : {order: 3e6, text: "elsewhere"};
};
/** Within a block: gradients in the order in which they were computed, the forward pass, then stored tensors. */
const passOf = name => /:(value|master|moment\d|update|accum)$/.test(name) ? 2 : /grad/.test(name.slice(name.indexOf(":"))) ? 0 : 1;

/** Returns the zero inputs in excess of those of fp32 at the same site and step: values that earlier sites flushed. */
const flushed = (run, h) => {
    const other = D.runs.find(r => r.policy === baseline && r.seed === run.seed && r.heat), cells = h.zero_in;
    if (!other || other === run) return cells;
    const b = other.heat, columns = h.step.length, rows = new Map(b.site.map((name, s) => [name, s]));
    const column = h.step.map(step => b.step.indexOf(step));
    return cells.map((ppm, k) => {
        const s = rows.get(h.site[Math.floor(k / columns)]), c = column[k % columns];
        return ppm === null || s === undefined || c < 0 ? ppm : Math.max(0, ppm - (b.zero_in[s * b.step.length + c] || 0));
    });
};
const hatch = (g, x, y, wide, high, share) => {
    g.save();
    g.beginPath(); g.rect(x, y, wide, high); g.clip();
    g.strokeStyle = css("--ink"); g.globalAlpha = .25 + .6 * share; g.lineWidth = 1; g.beginPath();
    for (let d = Math.floor((x - high) / 5) * 5; d < x + wide; d += 5) { g.moveTo(d, y + high); g.lineTo(d + high, y); }
    g.stroke();
    g.restore();
};
const notableZeros = 1e4, mostlyZeros = 5e5;  // parts per million: from the first, a cell is hatched; from the second, its row is shown

let heatHit = null, heatAt = null;
const drawHeat = () => {
    const canvas = at("heat"), scroll = canvas.parentElement, policy = Number(at("heat-policy").value);
    const run = heatPolicies.length ? runWith(policy, "heat") : null;
    scroll.style.display = at("heat-controls").style.display = run ? "" : "none";
    if (!run) { at("heat-note").textContent = "No site was sampled in these runs."; return; }
    const h = run.heat, metric = at("heat-metric").value, columns = h.step.length, cell = (s, c) => h[metric][s * columns + c];
    const zeros = metric === "zero_in" ? null : flushed(run, h), zerosAt = (s, c) => zeros ? zeros[s * columns + c] || 0 : 0;
    const wanted = at("heat-filter").value.trim().toLowerCase();
    const rows = h.site.map((name, s) => ({name, s, block: blockOf(name), pass: passOf(name), worst: Math.max(0, ...h.step.map((x, c) => cell(s, c) || 0)),
                                           zeros: Math.max(0, ...h.step.map((x, c) => zerosAt(s, c)))}))
        .filter(r => (!wanted || r.name.toLowerCase().includes(wanted)) && (at("heat-all").checked || r.worst > 0 || (metric === "underflow" && r.zeros >= mostlyZeros)))
        .sort((a, b) => a.block.order - b.block.order || a.pass - b.pass || a.s - b.s);
    // A printed page has room for this many rows. The worst ones are kept.
    const onPaper = 48, left = root.classList.contains("printing") && rows.length > onPaper ? rows.length - onPaper : 0;
    if (left) {
        const kept = new Set([...rows].sort((a, b) => b.worst - a.worst || b.zeros - a.zeros).slice(0, onPaper));
        rows.splice(0, rows.length, ...rows.filter(r => kept.has(r)));
    }
    const g = canvas.getContext("2d"), ratio = window.devicePixelRatio || 1, mono = "12px ui-monospace, DejaVu Sans Mono, monospace";
    g.font = mono;
    const narrow = scroll.clientWidth < 560;
    const short = name => name.replace(/^block\.\d+\./, "");
    const label = Math.min(narrow ? 170 : 360, 12 + Math.max(70, ...rows.map(r => g.measureText(short(r.name)).width)));
    const high = 16, heading = 20, top = 22;
    let y = top;
    rows.forEach((r, k) => { if (!k || rows[k - 1].block.text !== r.block.text) { r.heads = true; y += heading; } else r.heads = false; r.y = y; y += high; });
    const width = Math.max(scroll.clientWidth - 2, label + columns * (narrow ? 14 : 5)), height = y + 4;
    canvas.width = width * ratio; canvas.height = height * ratio;
    canvas.style.width = width + "px"; canvas.style.height = height + "px";
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.fillStyle = css("--paper"); g.fillRect(0, 0, width, height);
    g.font = mono; g.textBaseline = "middle";
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
        if (r.heads) {
            g.fillStyle = css("--ink"); g.textAlign = "left"; g.font = font(12, "600");
            g.fillText(r.block.text, 6, r.y - heading / 2 + 1);
            g.fillStyle = css("--line"); g.fillRect(label, r.y - heading / 2, width - label - 8, 1);
            g.font = mono;
        }
        g.fillStyle = css("--ink"); g.textAlign = "right";
        g.fillText(fitted(g, short(r.name), label - 10), label - 6, r.y + high / 2);
        for (let c = 0; c < columns; ++c) {
            const ppm = cell(r.s, c), x = Math.round(label + c * wide), next = Math.round(label + (c + 1) * wide), across = Math.max(1, next - x - (wide > 6 ? 1 : 0));
            g.fillStyle = heatColour(ppm);
            g.fillRect(x, r.y + 1, across, high - 2);
            if (ppm !== null && zerosAt(r.s, c) >= notableZeros) hatch(g, x, r.y + 1, across, high - 2, Math.min(1, zerosAt(r.s, c) / 1e6));
            if (h.not_finite[r.s * columns + c] > 0 && metric !== "not_finite") {
                g.fillStyle = css("--bad"); g.textAlign = "center"; g.fillText("×", x + across / 2, r.y + high / 2);
            }
        }
    });
    heatHit = {rows, h, label, wide, high, columns, cell};
    const box = (text, paint) => {
        const span = document.createElement("span"), sample = document.createElement("canvas"), s = sample.getContext("2d");
        sample.width = 18 * ratio; sample.height = 12 * ratio; s.setTransform(ratio, 0, 0, ratio, 0, 0);
        paint(s);
        span.append(sample, text);
        return span;
    };
    const filled = ppm => s => { s.fillStyle = heatColour(ppm); s.fillRect(0, 0, 18, 12); };
    at("heat-legend").replaceChildren(
        ...[["0", 0], ["0.001 %", 10], ["0.01 %", 100], ["0.1 %", 1e3], ["1 %", 1e4], ["10 %", 1e5], ["100 %", 1e6]].map(([text, ppm]) => box(text, filled(ppm))),
        ...(zeros && zeros.some(ppm => ppm >= notableZeros) ? [box("zero inputs (darker: more)", s => { filled(0)(s); hatch(s, 0, 0, 18, 12, .8); })] : []),
        ...(h.not_finite.some(ppm => ppm > 0) && metric !== "not_finite" ? [box("NaN or infinite inputs", s => { filled(0)(s); s.fillStyle = css("--bad"); s.font = mono; s.fillText("×", 5, 10); })] : []));
    at("heat-note").textContent = `Share of the elements cast at that site, seed ${run.seed}; rows in the order of the backward pass. ` +
        (zeros && baseline >= 0 && run.policy !== baseline ? "Zeros that fp32 also has are not hatched. " : "") +
        (h.per_column > 1 ? `Each column combines ${h.per_column} sampled steps. ` : "") +
        (rows.length ? `${rows.length} of ${h.site.length} sites${left ? ", those with the highest rates" : ""}.` : `Nothing of this kind happened at any of the ${h.site.length} sites.`);
    say("heat", `${D.policies[run.policy].name}: ${metrics[metric]}, seed ${run.seed}, sampled steps ${h.step[0]} to ${h.step[columns - 1]}` + (wanted ? `, sites containing "${wanted}".` : "."));
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
    if (heatAt) markCell();
};
draws.push(drawHeat);
for (const id of ["heat-policy", "heat-metric", "heat-all"]) at(id).onchange = drawHeat;
at("heat-filter").oninput = drawHeat;
const cellWords = (row, c) => {
    const {h, columns} = heatHit;
    const all = Object.keys(metrics).map(m => `${m.replace("_", " ")}: ${h[m][row.s * columns + c] === null ? "not sampled" : percent(h[m][row.s * columns + c])}`);
    return `${row.name} (${h.format[row.s]}), step ${h.step[c]}\n${all.join("\n")}`;
};
const showTip = (text, x, y) => {
    const tip = at("tip");
    tip.textContent = text;
    tip.hidden = false;
    tip.style.left = Math.max(4, Math.min(x + 14, window.innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(4, Math.min(y + 14, window.innerHeight - tip.offsetHeight - 8)) + "px";
};
at("heat").onmousemove = event => {
    at("tip").hidden = true;
    if (!heatHit) return;
    const {rows, label, wide, high, columns} = heatHit;
    const c = Math.floor((event.offsetX - label) / wide), row = rows.find(r => event.offsetY >= r.y && event.offsetY < r.y + high);
    if (row && c >= 0 && c < columns) showTip(cellWords(row, c), event.clientX, event.clientY);
};
at("heat").onmouseleave = () => { at("tip").hidden = true; };
const markCell = () => {
    const {rows, label, wide, high, columns} = heatHit, canvas = at("heat"), g = canvas.getContext("2d");
    if (!rows.length) return;
    heatAt.r = Math.max(0, Math.min(rows.length - 1, heatAt.r)); heatAt.c = Math.max(0, Math.min(columns - 1, heatAt.c));
    const row = rows[heatAt.r], x = label + heatAt.c * wide;
    g.strokeStyle = css("--accent"); g.lineWidth = 3; g.strokeRect(x, row.y, Math.max(4, wide - 1), high);
    const scroll = canvas.parentElement;
    scroll.scrollTop = Math.max(0, row.y - scroll.clientHeight / 2); scroll.scrollLeft = Math.max(0, x - scroll.clientWidth / 2);
    const text = cellWords(row, heatAt.c), place = canvas.getBoundingClientRect();
    at("told").textContent = text;
    showTip(text, place.left + x, place.top + row.y);
};
at("heat").onkeydown = event => {
    if (!heatHit) return;
    const now = heatAt || {r: -1, c: 0};
    const next = {ArrowDown: [now.r + 1, now.c], ArrowUp: [now.r - 1, now.c], ArrowRight: [Math.max(0, now.r), now.c + 1], ArrowLeft: [Math.max(0, now.r), now.c - 1],
                  Home: [0, 0], End: [1e9, now.c], Escape: null}[event.key];
    if (next === undefined) return;
    event.preventDefault();
    heatAt = next && {r: next[0], c: next[1]};
    at("tip").hidden = true;
    drawHeat();
};
at("heat").onblur = () => { heatAt = null; at("tip").hidden = true; drawHeat(); };

