// ---- gaps of policies ----------------------------------------------------------------------------------------------
// Gaps are shares of fp32's loss. The axis is linear inside the band and logarithmic far outside, so that one policy with
// a large gap does not squeeze the others together.
const bent = v => Math.asinh(v / D.margin), unbent = x => Math.sinh(x) * D.margin;
const shareOf = v => `${v > 0 ? "+" : v < 0 ? "−" : ""}${Number((100 * Math.abs(v)).toPrecision(2))} %`;
const gapTicks = axis => {
    const nice = [D.margin, ...[.003, .01, .03, .1, .3, 1, 3, 10].filter(v => v > 2.5 * D.margin)];
    const all = [...nice.map(v => -v).reverse(), 0, ...nice];
    axis.ticks = all.map(v => ({value: bent(v)})).filter(t => t.value >= axis.min && t.value <= axis.max);
};
const gapAxis = text => ({afterBuildTicks: gapTicks, ticks: {color: text, maxRotation: 0, autoSkip: false, callback: x => shareOf(unbent(x))}});
const toneMarks = {good: "circle", warn: "triangle", bad: "crossRot", plain: "rectRot"};
const compared = () => shown().filter(i => !D.policies[i].baseline);
const reach = list => {
    const ends = list.flatMap(i => { const p = D.policies[i]; return p.gap === null ? [] : [p.gap - (p.half95 || 0), p.gap + (p.half95 || 0)]; });
    return [Math.min(-1.6 * D.margin, ...ends), Math.max(1.6 * D.margin, ...ends)];
};
const bandWords = `±${Number((100 * D.margin).toPrecision(3))} %`;

// The worst policy is at the top. A policy without a gap diverged.
const forestRows = () => compared().sort((a, b) => (D.policies[b].gap ?? Infinity) - (D.policies[a].gap ?? Infinity));
const rowHigh = 42;
const forest = {id: "forest", beforeDatasetsDraw(chart) {
    const {ctx, chartArea: a, scales: {x}} = chart;
    ctx.save();
    const low = x.getPixelForValue(bent(-D.margin)), high = x.getPixelForValue(bent(D.margin));
    ctx.fillStyle = alpha("#808a99", isDark() ? .28 : .2);
    ctx.fillRect(low, a.top, high - low, a.bottom - a.top);
    ctx.strokeStyle = css("--quiet"); ctx.setLineDash([3, 3]); ctx.beginPath();
    for (const edge of [low, high]) { ctx.moveTo(edge, a.top); ctx.lineTo(edge, a.bottom); }
    ctx.stroke(); ctx.setLineDash([]);
    ctx.restore();
}, afterDatasetsDraw(chart) {
    const {ctx, chartArea: a, scales: {x, y}} = chart, clamp = v => Math.min(a.right, Math.max(a.left, v));
    ctx.save();
    ctx.textBaseline = "middle";
    forestRows().forEach((i, row) => {
        const p = D.policies[i], high = y.getPixelForValue(row), middle = p.gap === null ? a.right : x.getPixelForValue(bent(p.gap));
        const bar = (half, width, cap) => {
            if (half === null || p.gap === null) return;
            const from = clamp(x.getPixelForValue(bent(p.gap - half))), to = clamp(x.getPixelForValue(bent(p.gap + half)));
            ctx.lineWidth = width; ctx.strokeStyle = colour(i); ctx.beginPath(); ctx.moveTo(from, high); ctx.lineTo(to, high);
            if (cap) for (const end of [from, to]) { ctx.moveTo(end, high - 5); ctx.lineTo(end, high + 5); }
            ctx.stroke();
        };
        bar(p.half95, 1.6, true); bar(p.half90, 4.5, false);
        if (p.gap === null) {
            ctx.strokeStyle = colour(i); ctx.lineWidth = 2.5; ctx.beginPath();
            ctx.moveTo(a.right - 34, high); ctx.lineTo(a.right - 4, high); ctx.moveTo(a.right - 12, high - 6); ctx.lineTo(a.right - 4, high); ctx.lineTo(a.right - 12, high + 6);
            ctx.stroke();
        }
        ctx.textAlign = "left"; ctx.font = font(12, "600");
        const name = fitted(ctx, p.name, .6 * (a.right - a.left)), wide = ctx.measureText(name).width;
        ctx.font = font(12);
        const words = fitted(ctx, ` ${p.gap_words}, ${p.verdict}`, a.right - a.left - wide - 12), more = ctx.measureText(words).width;
        // Clear the background, so that the edges of the band do not cross the text.
        ctx.fillStyle = css("--panel"); ctx.fillRect(a.left + 2, high - 25, wide + more + 12, 16);
        ctx.fillStyle = css("--quiet"); ctx.fillText(words, a.left + 8 + wide, high - 17);
        ctx.fillStyle = css("--ink"); ctx.font = font(12, "600"); ctx.fillText(name, a.left + 6, high - 17);
    });
    ctx.restore();
}};
plot("forest", {type: "scatter", x: "loss − fp32 loss, as a share of the fp32 loss", y: "", interaction: {axis: "y"}, inline: [forest],
                tooltip: {title: items => items.length ? items[0].dataset.label : "",
                          label: item => { const p = D.policies[item.dataset.of]; return [`${p.verdict}: ${p.gap_words} nats per token`, ...(p.gap === null ? [] : [`${shareOf(p.gap)} of the fp32 loss`]),
                                           ...(p.seen === null ? [] : [`smallest detectable gap ${shareOf(p.seen).slice(1)}`])]; }}}, () => {
    const rows = forestRows(), [low, high] = reach(rows), pad = .04 * (bent(high) - bent(low)), text = css("--quiet");
    const box = at("forest").parentElement;
    box.style.height = `${Math.max(2, rows.length) * rowHigh + 74}px`;
    box.parentElement.hidden = box.parentElement.closest("section").hidden = rows.length === 0;
    const datasets = rows.map((i, row) => ({
        label: D.policies[i].name, of: i, data: [{x: D.policies[i].gap === null ? bent(high) : bent(D.policies[i].gap), y: row}],
        pointStyle: toneMarks[D.policies[i].tone], pointRadius: D.policies[i].gap === null ? 0 : 4.5, pointHoverRadius: 7, borderWidth: 2, borderColor: colour(i),
        backgroundColor: ["good", "warn"].includes(D.policies[i].tone) ? colour(i) : css("--panel")}));
    const seen = rows.filter(i => D.policies[i].tone === "good" || D.policies[i].verdict === "undecided").map(i => D.policies[i].seen).filter(v => v > 0);
    at("forest-note").textContent = `Thin: 95 % interval over seeds; thick: 90 %. Shaded: ${bandWords} of the fp32 loss. Axis: linear in the band, logarithmic outside. ` +
        "Disc: within the band; triangle: worse; diamond: undecided; arrow: diverged. " +
        (seen.length ? `Where none was found, the smallest detectable gap is at most ${shareOf(Math.max(...seen)).slice(1)}.` : "");
    say("forest", `Gap to fp32 of ${rows.length} policies, ${seeds.length} seed${seeds.length === 1 ? "" : "s"}; shaded: ${bandWords} of the fp32 loss; thin: 95 %, thick: 90 % interval.`);
    return {datasets, xMore: {...gapAxis(text), min: bent(low) - pad, max: bent(high) + pad, title: {display: true, text: "loss − fp32 loss, as a share of the fp32 loss", color: text}},
            yMore: {min: -.9, max: Math.max(2, rows.length) - .4, reverse: true, display: false}};
});

// ---- bytes against gap ---------------------------------------------------------------------------------------------
const byteKinds = {both: "kept from step to step plus activations", static: "kept from step to step", activations: "activations"};
const bytesOf = (p, kind) => kind === "both" ? (p.static === null || p.activations === null ? null : p.static + p.activations) : p[kind];
const hasBytes = D.policies.some(p => bytesOf(p, "both") !== null);
fill(at("cost-bytes"), Object.entries(byteKinds).map(([key, text]) => [text, key]), "both");
/** Names next to points. Points at the same place share a list. */
const pointNames = {id: "pointNames", afterDatasetsDraw(chart) {
    const {ctx, chartArea: a} = chart, groups = [];
    chart.data.datasets.forEach((set, k) => {
        const p = chart.getDatasetMeta(k).data[0];
        if (!p || set.of === undefined) return;
        const group = groups.find(g => Math.abs(g.x - p.x) < 14 && Math.abs(g.y - p.y) < 14);
        if (group) group.of.push(set.of); else groups.push({x: p.x, y: p.y, of: [set.of]});
    });
    ctx.save();
    ctx.font = font(12); ctx.textBaseline = "middle"; ctx.fillStyle = css("--ink");
    const dots = groups.map(g => ({left: g.x - 7, right: g.x + 7, top: g.y - 7, bottom: g.y + 7})), taken = [];
    const isFree = box => box.left >= a.left && box.right <= a.right && box.top >= a.top && box.bottom <= a.bottom &&
        ![...dots, ...taken].some(t => box.left < t.right && box.right > t.left && box.top < t.bottom && box.bottom > t.top);
    for (const g of groups.sort((p, q) => q.of.length - p.of.length)) {
        const names = g.of.map(i => D.policies[i].name), lines = names.length > 4 ? [...names.slice(0, 3), `+${names.length - 3} more`] : names;
        const texts = lines.map(text => fitted(ctx, text, .4 * (a.right - a.left))), wide = Math.max(...texts.map(text => ctx.measureText(text).width)), high = 14 * texts.length;
        // Next to the point, above it or below it, wherever there is room.
        const boxes = [[g.x + 10, g.y - high / 2], [g.x - 10 - wide, g.y - high / 2], [g.x - wide / 2, g.y - 10 - high], [g.x - wide / 2, g.y + 10],
                       [a.right - wide, g.y - 10 - high], [a.left, g.y - 10 - high], [a.right - wide, g.y + 10]].map(([left, top]) => ({left, top, right: left + wide, bottom: top + high}));
        const box = boxes.find(isFree) || boxes[2];
        taken.push(box);
        ctx.textAlign = "left";
        texts.forEach((text, k) => ctx.fillText(text, box.left, box.top + 14 * k + 7));
    }
    ctx.restore();
}};
const gapBand = {id: "gapBand", beforeDatasetsDraw(chart) {
    const {ctx, chartArea: a, scales: {y}} = chart, low = y.getPixelForValue(bent(-D.margin)), high = y.getPixelForValue(bent(D.margin));
    ctx.save();
    ctx.fillStyle = alpha("#808a99", isDark() ? .28 : .2);
    ctx.fillRect(a.left, high, a.right - a.left, low - high);
    ctx.restore();
}};
plot("cost", {type: "scatter", x: "bytes per parameter", y: "gap, share of the fp32 loss", interaction: {axis: "xy"}, inline: [gapBand, pointNames],
              tooltip: {title: () => "", label: item => { const p = D.policies[item.dataset.of]; return `${p.name}: ${number(item.parsed.x, 1)} bytes per parameter, gap ${p.baseline ? "0" : shareOf(p.gap)}`; }}}, () => {
    const kind = at("cost-bytes").value, text = css("--quiet");
    const there = shown().filter(i => bytesOf(D.policies[i], kind) !== null && (D.policies[i].baseline || D.policies[i].gap !== null));
    at("cost").closest("figure").hidden = !hasBytes;
    const [low, high] = reach(there), pad = .06 * (bent(high) - bent(low)), xs = there.map(i => bytesOf(D.policies[i], kind));
    const datasets = there.map(i => ({label: D.policies[i].name, of: i, data: [{x: bytesOf(D.policies[i], kind), y: D.policies[i].baseline ? 0 : bent(D.policies[i].gap)}],
        pointStyle: D.policies[i].baseline ? "rect" : toneMarks[D.policies[i].tone], pointRadius: 6, pointHoverRadius: 8, borderWidth: 2, borderColor: colour(i), backgroundColor: colour(i)}));
    const missing = compared().filter(i => D.policies[i].gap === null).map(i => D.policies[i].name);
    at("cost-note").textContent = `${byteKinds[kind][0].toUpperCase()}${byteKinds[kind].slice(1)}, in the formats of the policy; activations of one micro-batch of this small model. Shaded: ${bandWords}. ` +
        (missing.length ? `Not shown, because they have no gap: ${missing.join(", ")}.` : "");
    say("cost", `Bytes per parameter (${byteKinds[kind]}) against the gap to fp32, as a share of its loss.`);
    return {datasets, xMore: {min: 0, max: 1.2 * Math.max(1, ...xs), title: {display: true, text: `bytes per parameter, ${byteKinds[kind]}`, color: text}},
            yMore: {...gapAxis(text), min: bent(low) - pad, max: bent(high) + pad, title: {display: true, text: "gap, share of the fp32 loss", color: text}}};
});
at("cost-bytes").onchange = redraw;
