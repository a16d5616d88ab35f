// ---- curves --------------------------------------------------------------------------------------------------------
/** Returns the mean, minimum and maximum over the chosen runs of policy i at each step. */
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
/** A line with its own dashes, and marks at its own places, so that overlapping lines can be distinguished. */
const curve = (i, key) => {
    const data = meanOf(i, key), every = Math.max(4, Math.ceil(data.length / 6)), first = Math.floor(every * (order.indexOf(i) + .5) / Math.max(1, order.length));
    return {label: D.policies[i].name, policy: i, end: D.policies[i].name, isBaseline: D.policies[i].baseline, data, borderColor: colour(i), backgroundColor: colour(i), borderDash: dash(i),
            borderWidth: D.policies[i].baseline ? 2.6 : 1.8, order: D.policies[i].baseline ? 5 : 3, pointStyle: mark(i),
            pointRadius: mark(i) ? data.map((p, k) => k % every === first ? 4 : 0) : 0};
};
// Most of a training curve is its tail, so the default range of y ignores the fall at the start.
const tailRange = (sets, least) => {
    const ys = [];
    for (const set of sets) for (const p of set.data) if (p.x >= least && Number.isFinite(p.y)) ys.push(p.y);
    return ys.length ? [Math.min(...ys), Math.max(...ys)] : null;
};
const smoothWords = id => at(id).checked ? "unsmoothed" : "exponential moving average, decay 0.9";

plot("loss", {y: "loss (nats per token)", tooltip: {label: named}}, () => {
    const sets = shown().map(i => curve(i, at("loss-raw").checked ? "loss" : "loss_ema"));
    say("loss", `Training loss (${smoothWords("loss-raw")}) and held-out loss (rings), ${seedWords()}.`);
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
    say("gap", `Loss − fp32 loss (${smoothWords("gap-raw")}), ${seedWords()}; shaded: ${bandWords} of the fp32 loss.`);
    const lines = shown().filter(i => !D.policies[i].baseline).map(i => curve(i, key)).filter(set => set.data.length);
    const margin = [];
    for (const i of D.policies.keys()) {
        if (D.policies[i].baseline) for (const p of meanOf(i, "loss_ema")) margin.push({x: p.x, y: D.margin * p.y});
    }
    if (margin.length) {
        const band = {borderWidth: 0, backgroundColor: alpha("#808a99", isDark() ? .28 : .2), silent: true, order: 9};
        sets.push({...band, label: "upper edge of the band", data: margin, fill: "+1"},
                  {...band, label: "lower edge of the band", data: margin.map(p => ({x: p.x, y: -p.y})), fill: false});
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
    const calm = lines.filter(set => D.policies[set.policy].verdict !== "diverged");
    const last = Math.max(0, ...D.runs.flatMap(r => r.step.slice(-1)));
    const range = tailRange(calm.length ? calm : lines, last * .1), edge = margin.length ? margin[margin.length - 1].y : 0;
    if (!range) return {datasets: sets};
    const ticks = {color: css("--quiet"), includeBounds: false, callback: y => Number(y.toPrecision(3))};
    if (at("gap-zoom").checked && edge > 0) return {datasets: sets, yMore: {min: -3 * edge, max: 3 * edge, ticks}};
    const low = Math.min(range[0], -edge), high = Math.max(range[1], edge), pad = .15 * (high - low) || 1e-3;
    return {datasets: sets, yMore: {min: low - pad, max: high + pad, ticks}};
});
at("gap-raw").onchange = at("gap-zoom").onchange = redraw;

/** Describes flat lines in a sentence, which replaces the chart. */
const scaleWords = flat => {
    const groups = new Map();
    for (const [i, scale] of flat) groups.set(scale, [...(groups.get(scale) || []), D.policies[i].name]);
    return [...groups].map(([scale, names]) => {
        const power = Math.log2(scale), size = `${scale.toLocaleString("en")}${Number.isInteger(power) && power > 3 ? ` (${raised(power)})` : ""}`;
        return `${names.join(", ")}: a loss scale of ${size} in every step, and no step was skipped.`;
    }).join(" ");
};
plot("scale", {y: "loss scale", yMore: {ticks: {precision: 0, callback: y => Number.isInteger(y) ? raised(y) : ""}},
               tooltip: {label: item => `${item.dataset.label}: ${(2 ** item.parsed.y).toLocaleString("en")}`}}, () => {
    const sets = [], skips = [], flat = [];
    let isFlat = true;
    for (const i of shown()) {
        const run = runsOf(i)[0];
        if (!run || !run.step.length || !(run.scale.length > 1 || run.skipped.length || run.scale.some(s => s[1] !== 1))) continue;
        if (run.scale.length > 1 || run.skipped.length) isFlat = false; else flat.push([i, run.scale[0][1]]);
        const data = run.scale.map(s => ({x: s[0], y: Math.log2(s[1])}));
        data.push({x: run.step[run.step.length - 1], y: data[data.length - 1].y});
        sets.push({...curve(i, "loss"), data, stepped: "before", pointRadius: 0});
        skips.push({label: D.policies[i].name + ", skipped", data: run.skipped.map(s => ({x: s[0], y: Math.log2(s[1])})),
                    showLine: false, pointStyle: "crossRot", pointRadius: 7, borderWidth: 2.2, borderColor: colour(i), order: 1});
        if (run.skipped.length) skips[skips.length - 1].count = run.skipped.length;
    }
    const counts = skips.filter(s => s.count).map(s => `${s.label.slice(0, -", skipped".length)}: ${s.count} skipped`);
    at("scale").closest("figure").hidden = isFlat;
    at("scale-said").textContent = !isFlat ? "" : flat.length ? scaleWords(flat) : "None of the shown policies used a loss scale.";
    at("scale-note").textContent = isFlat ? "" : `The scale used in each step${seed === "all" ? ", first seed" : ""}. ${counts.length ? counts.join("; ") + "." : "No step was skipped."}`;
    say("scale", `Loss scale of ${sets.map(s => s.label).join(", ")}${seed === "all" ? ", first seed" : `, seed ${seed}`}; crosses: skipped steps.`);
    return {datasets: [...sets, ...skips]};
});
plot("lost", {y: "weights per step", yMore: {beginAtZero: true}, tooltip: {label: item => `${item.dataset.label}: ${item.parsed.y.toLocaleString("en")}`}},
     () => { say("lost", `Weights per step whose update was not zero but changed nothing, ${seedWords()}.`); return {datasets: shown().map(i => curve(i, "lost"))}; });
plot("eff", {y: "actual / intended movement", tooltip: {label: named}},
     () => { say("eff", `Movement of the weights relative to the intended movement, ${seedWords()}.`); return {datasets: shown().map(i => curve(i, "eff")), yMore: {suggestedMin: .98, suggestedMax: 1.005}}; });

