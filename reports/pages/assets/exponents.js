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
    at("exp-step").parentElement.hidden = steps.length < 2;
};
fill(at("exp-policy"), expPolicies.map(i => [D.policies[i].name, i]), at("heat-policy").value);
fill(at("exp-range"), [["the format of the cast", ""], ...Object.keys(D.formats).filter(name => D.formats[name].normal > -1022).map(name => [name, name])], "");
fillSites();
/** The window of a histogram in units of log2|x|: subnormal from `low`, normal from `normal` to `high`. Values of
    fp32 are compared with the range of fp16 unless another range is selected. */
const rangeOf = (run, e) => at("exp-range").value || (run.policy === baseline ? "fp16" : "");
const windowOf = (run, e) => {
    const asked = rangeOf(run, e), name = asked || e.format.split(/[/:]/)[0], f = D.formats[name], scale = asked ? [1, 1] : e.scale;
    return f && {name: asked || e.format, scale, low: f.least + Math.log2(scale[0]), normal: f.normal + Math.log2(scale[0]), high: Math.log2(f.largest) + Math.log2(scale[1])};
};
// Patterns show what happens to a value. The colours are not those of policies.
const kinds = {zero: "already zero", low: "too small: becomes zero", subnormal: "subnormal: fewer digits", normal: "normal", high: "too large"};
const kindFill = (ctx, kind) => {
    const tile = document.createElement("canvas"), g = tile.getContext("2d"), n = 8;
    tile.width = tile.height = n;
    const ink = kind === "low" || kind === "high" ? css("--bad") : css("--bars");
    g.fillStyle = g.strokeStyle = ink; g.lineWidth = 2;
    if (kind === "normal") g.fillRect(0, 0, n, n);
    else { g.globalAlpha = .22; g.fillRect(0, 0, n, n); g.globalAlpha = 1; }
    if (kind === "subnormal") for (const [x, y] of [[1, 1], [5, 5]]) g.fillRect(x, y, 2, 2);
    if (kind === "zero") g.fillRect(0, 3, n, 2);
    if (kind === "low" || kind === "high") {
        g.beginPath();
        for (const d of [-n, 0, n]) { g.moveTo(d, n); g.lineTo(d + n, 0); if (kind === "high") { g.moveTo(d, 0); g.lineTo(d + n, n); } }
        g.stroke();
    }
    return ctx.createPattern(tile, "repeat");
};
const shading = {id: "shading", beforeDatasetsDraw(chart) {
    const w = chart.options.plugins.shading.window, first = chart.options.plugins.shading.first;
    if (!w) return;
    const {ctx, chartArea: a, scales: {x}} = chart, step = x.getPixelForValue(2) - x.getPixelForValue(1);
    // Index 0 is the bar of zeros; the left edge of the bar of exponent e is at the number 2^e.
    const pixel = v => Math.min(a.right, Math.max(a.left, x.getPixelForValue(1) + (v - first - .5) * step));
    const box = (from, to, shade, text) => {
        if (to - from < 1) return;
        ctx.fillStyle = shade; ctx.fillRect(from, a.top, to - from, a.bottom - a.top);
        ctx.fillStyle = css("--quiet"); ctx.font = font(11); ctx.textAlign = "center";
        if (ctx.measureText(text).width < to - from - 4) ctx.fillText(text, (from + to) / 2, a.top + 12);
    };
    ctx.save();
    box(pixel(w.low), pixel(w.normal), alpha("#8a94a6", .16), "subnormal");
    box(pixel(w.normal), pixel(w.high), alpha("#8a94a6", .34), `normal in ${w.name}`);
    ctx.restore();
}};
draws.push(() => {
    const run = expRun(), note = at("exp-note");
    const e = run && run.exps.find(x => x.site === at("exp-site").value && String(x.step) === at("exp-step").value);
    at("exp").parentElement.style.display = at("exp-legend").style.display = e ? "" : "none";
    at("exp-controls").style.display = expPolicies.length ? "" : "none";
    if (!e) { note.textContent = "No exponents were recorded in these runs."; return; }
    if (!hasChart) { at("exp").parentElement.textContent = "This page was made by a program built without Chart.js."; return; }
    const w = windowOf(run, e), text = css("--quiet"), line = css("--line"), log = at("exp-log").checked, ctx = at("exp").getContext("2d");
    // The same values in the fp32 run, which rounds nothing, if it has them.
    const plain = run.policy === baseline ? null : (D.runs.find(r => r.policy === baseline && r.seed === run.seed && r.exps) || {exps: []}).exps.find(x => x.site === e.site && x.step === e.step);
    const both = plain ? [e, plain] : [e], least = Math.min(...both.map(x => x.first)), most = Math.max(...both.map(x => x.first + x.counts.length - 1));
    // Extend the axis to the edges of the window if they are near.
    const from = Math.min(least, w ? Math.max(Math.floor(w.low) - 2, least - 12) : least), to = Math.max(most, w ? Math.min(Math.ceil(w.high) + 1, most + 12) : most);
    const hasOthers = both.some(x => x.inf || x.nan), labels = ["zero"];
    for (let k = from; k <= to; ++k) labels.push(String(k));
    if (hasOthers) labels.push("inf", "nan");
    const countsOf = x => [x.zero, ...Array.from({length: to - from + 1}, (v, k) => x.counts[from + k - x.first] || 0), ...(hasOthers ? [x.inf, x.nan] : [])];
    const sum = list => list.reduce((a, b) => a + b, 0), counts = countsOf(e), total = sum(counts) || 1;
    const kindAt = n => {
        const k = from + n - 1;
        if (n === 0) return "zero";
        if (k > to) return "high";
        if (!w) return "normal";
        // Half of the smallest subnormal rounds to zero.
        return k + 1 <= w.low - 1 ? "low" : k < w.normal ? "subnormal" : k >= w.high ? "high" : "normal";
    };
    const fills = Object.fromEntries(Object.keys(kinds).map(kind => [kind, kindFill(ctx, kind)]));
    const datasets = [{label: D.policies[run.policy].name, data: counts.map(c => 100 * c / total), backgroundColor: labels.map((l, n) => fills[kindAt(n)]),
                       borderColor: labels.map((l, n) => /low|high/.test(kindAt(n)) ? css("--bad") : css("--bars")), borderWidth: 1, categoryPercentage: 1, barPercentage: .9, minBarLength: 0, order: 2}];
    if (plain) {
        const others = countsOf(plain), all = sum(others) || 1;
        datasets.push({type: "line", label: "fp32, unrounded", data: others.map(c => c ? 100 * c / all : null), stepped: "middle", borderColor: css("--ink"), borderWidth: 2, pointRadius: 0, spanGaps: false, order: 1});
    }
    if (charts.exp) charts.exp.destroy();
    charts.exp = new Chart(at("exp"), {
        type: "bar", plugins: [shading], data: {labels, datasets},
        options: {responsive: true, maintainAspectRatio: false, animation: false, interaction: {mode: "index", axis: "x", intersect: false},
                  plugins: {legend: {display: false}, shading: {window: w, first: from},
                            tooltip: {callbacks: {title: items => /^-?\d+$/.test(items[0].label) ? `${raised(items[0].label)} ≤ |x| < ${raised(Number(items[0].label) + 1)}` : items[0].label,
                                                  label: item => `${item.dataset.label}: ${item.parsed.y.toPrecision(3)} % of the elements`}}},
                  scales: {x: {title: {display: true, text: "exponent, floor(log2|x|), before scaling", color: text}, ticks: {color: text, maxRotation: 0, autoSkipPadding: 6}, grid: {display: false}},
                           y: {type: log ? "logarithmic" : "linear", title: {display: true, text: "share of elements (%)", color: text},
                               ticks: {color: text, callback: v => log ? (/^1e/.test(v.toExponential()) ? String(v) : "") : v}, grid: {color: line},
                               ...(log ? {min: Math.max(1e-5, 50 / total)} : {beginAtZero: true})}}},
    });
    walkable("exp");
    const there = unique(labels.map((l, n) => counts[n] ? kindAt(n) : "")).filter(Boolean);
    at("exp-legend").replaceChildren(...there.map(kind => {
        const span = document.createElement("span"), sample = document.createElement("canvas"), g = sample.getContext("2d");
        sample.width = 18; sample.height = 12; g.fillStyle = kindFill(g, kind); g.fillRect(0, 0, 18, 12);
        span.append(sample, kinds[kind]);
        return span;
    }), ...(plain ? [(() => { const span = document.createElement("span"), rule = document.createElement("i"); span.append(rule, "line: the same site and step in fp32, unrounded"); return span; })()] : []));
    const small = w ? sum(counts.filter((c, n) => kindAt(n) === "low")) : 0, where = `${D.policies[run.policy].name}, ${e.site}, step ${e.step}, seed ${run.seed}`;
    const isScaled = w && (w.scale[0] !== 1 || w.scale[1] !== 1);
    note.textContent = `${total.toLocaleString("en")} elements, seed ${run.seed}. ` +
        (w ? `Window of ${w.name}${isScaled ? `, decode scale ${w.scale[0] === w.scale[1] ? number(w.scale[0], 6) : number(w.scale[0], 6) + " to " + number(w.scale[1], 6)}` : ""}: ` +
             `${percent(1e6 * small / total)} of the elements are too small for it.` : "");
    say("exp", `${where}${w ? `; window of ${w.name}` : ""}.`);
});
at("exp-policy").onchange = () => { fillSites(); redraw(); };
at("exp-site").onchange = () => { fillSteps(); redraw(); };
for (const id of ["exp-step", "exp-log", "exp-range"]) at(id).onchange = redraw;

