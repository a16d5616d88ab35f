// ---- matrix products -----------------------------------------------------------------------------------------------
if (D.gemm) {
    const G = D.gemm, all = G.rows.map(r => Object.fromEntries(G.fields.map((name, i) => [name, r[i]])));
    const measures = {max_error: "largest |error| / sum of |a||b|", rms_error: "rms |error| / sum of |a||b|", max_rel: "largest relative error",
                      rms_rel: "rms relative error", max_ulp: "largest error in ulp", bias: "|bias|", drift: "|drift|"};
    const axes = {k: "terms k", n: "columns n", m: "rows m", scale: "scale of the operands"}, sizes = Object.keys(axes);
    const values = (rows, name) => [...new Set(rows.map(r => r[name]))].sort((a, b) => a - b);
    const off = new Set(), chosen = id => at(id).value;
    // The plain fp32 chain has the colour of the text, like the fp32 policy.
    const plain = G.machine.indexOf("fp32.chain"), others = G.machine.map((name, i) => i).filter(i => i !== plain);
    const shade = i => i === plain ? css("--ink") : (isDark() ? palette.dark : palette.light)[others.indexOf(i) % palette.light.length];
    const mark = i => i === plain ? "circle" : marks[(others.indexOf(i) + 1) % marks.length];
    const ofSet = () => all.filter(r => r.set === Number(chosen("gemm-set")));
    const rest = (r, axis) => sizes.filter(name => name !== axis).map(name => `${name} ${r[name]}`).join(", ");
    const inPlot = () => ofSet().filter(r => rest(r, chosen("gemm-axis")) === chosen("gemm-rest"));

    fill(at("gemm-set"), G.set.map((name, i) => [name, i]), 0);
    fill(at("gemm-measure"), Object.entries(measures).map(([key, text]) => [text, key]), "max_error");
    const choose = () => {
        const rows = ofSet(), moving = sizes.filter(name => values(rows, name).length > 1);
        fill(at("gemm-axis"), (moving.length ? moving : ["k"]).map(name => [axes[name], name]), chosen("gemm-axis"));
        const fixed = [...new Set(rows.map(r => rest(r, chosen("gemm-axis"))))];
        fill(at("gemm-rest"), fixed.map(text => [text, text]), chosen("gemm-rest"));
        for (const id of ["gemm-set", "gemm-axis", "gemm-rest"]) at(id).parentElement.style.display = at(id).options.length > 1 ? "" : "none";
    };
    choose();
    const line = i => {
        const box = document.createElement("span");
        box.innerHTML = `<svg width="26" height="12" aria-hidden="true"><g stroke="${shade(i)}" fill="${shade(i)}"><line x1="0" x2="26" y1="6" y2="6" stroke-width="3"/>${shapes[mark(i)]}</g></svg>`;
        return box;
    };
    draws.push(() => {
        const there = new Set(ofSet().map(r => r.machine));
        at("gemm-chips").replaceChildren(...G.machine.map((name, i) => {
            const chip = document.createElement("button");
            chip.type = "button"; chip.className = "chip"; chip.hidden = !there.has(i);
            chip.setAttribute("aria-pressed", String(!off.has(i)));
            chip.append(line(i), name);
            chip.onclick = () => {
                if (!off.delete(i)) off.add(i);
                redraw();
                at("gemm-chips").children[i].focus();
            };
            return chip;
        }));
    });
    /** Returns the points of a machine along the axis. `join` combines several seeds. */
    const points = (rows, machine, axis, value, join) => values(rows, axis).map(x => {
        const ys = rows.filter(r => r.machine === machine && r[axis] === x && r[value] !== null).map(r => Math.abs(r[value]));
        return {x, y: ys.length ? join(ys) : NaN};
    }).filter(p => p.y > 0);
    const most = ys => Math.max(...ys), mean = ys => ys.reduce((a, b) => a + b, 0) / ys.length;
    const rms = ys => Math.sqrt(mean(ys.map(y => y * y)));
    const power = y => { const e = Math.round(Math.log10(y)); return "10" + String(e).replace(/./g, c => ({"-": "⁻"})[c] || "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)]); };
    const decades = axis => {
        const from = Math.ceil(Math.log10(axis.min) - 1e-9), to = Math.floor(Math.log10(axis.max) + 1e-9), step = Math.max(1, Math.ceil((to - from) / 9));
        if (to > from) axis.ticks = Array.from({length: Math.floor((to - from) / step) + 1}, (x, n) => ({value: 10 ** (from + n * step)}));
    };
    const scales = (rows, axis, sets) => {
        const xs = values(rows, axis), ys = sets.flatMap(set => set.data.map(p => p.y)), text = css("--quiet");
        const ticks = {color: text, maxRotation: 0, autoSkip: true, autoSkipPadding: 8};
        return {xMore: {type: "logarithmic", title: {display: true, text: axes[axis], color: text}, min: Math.min(...xs), max: Math.max(...xs),
                        afterBuildTicks: a => { a.ticks = xs.map(value => ({value})); }, ticks: {...ticks, callback: x => x >= 1 ? x.toLocaleString("en") : x.toPrecision(2)}},
                yMore: {type: "logarithmic", ...(ys.length ? {min: Math.min(...ys) / 1.6, max: Math.max(...ys) * 1.6} : {}),
                        afterBuildTicks: decades, ticks: {color: text, autoSkip: false, callback: y => Math.abs(Math.log10(y) % 1) < 1e-6 ? power(y) : number(y)}}};
    };
    const tooltips = {title: items => items.length ? `${chosen("gemm-axis")} = ${items[0].parsed.x.toLocaleString("en")}` : "",
                      label: item => `${item.dataset.label}: ${item.parsed.y.toPrecision(3)}`};
    const shownMachines = rows => [...new Set(rows.map(r => r.machine))].sort((a, b) => a - b).filter(i => !off.has(i));
    const curveOf = (i, data) => ({label: G.machine[i], end: G.machine[i], isBaseline: i === plain, data, borderColor: shade(i), backgroundColor: shade(i), borderWidth: 2.2,
                                   pointRadius: 3.4, pointStyle: mark(i), order: 30, clip: 8});
    // Curves that coincide are drawn on top of each other, the lower ones wider.
    const stacked = curves => {
        const isNear = (p, q) => p.x === q.x && Math.abs(p.y - q.y) < .03 * p.y;
        curves.forEach((curve, j) => {
            const above = curve.data.map(p => curves.slice(j + 1).filter(other => other.data.some(q => isNear(p, q))).length);
            curve.pointRadius = above.map(n => 3.4 + 1.1 * n);
            curve.segment = {borderWidth: s => 2.2 + 2.2 * Math.min(above[s.p0DataIndex], above[s.p1DataIndex])};
            curve.order += curves.length - j;
        });
        return curves;
    };

    plot("gemm", {y: "error", tooltip: tooltips}, () => {
        const rows = inPlot(), axis = chosen("gemm-axis"), measure = chosen("gemm-measure"), sets = [], bounds = [], exact = [];
        const isBounded = measure === "max_error" || measure === "rms_error";
        at("gemm-bounds").disabled = !isBounded;
        for (const i of shownMachines(rows)) {
            const data = points(rows, i, axis, measure, measure.startsWith("max") ? most : measure.startsWith("rms") ? rms : mean);
            if (data.length) sets.push(curveOf(i, data)); else exact.push(G.machine[i]);
            if (!isBounded || !at("gemm-bounds").checked) continue;
            const bound = {borderColor: shade(i), backgroundColor: shade(i), borderWidth: 1.3, order: 60};
            bounds.push({...bound, label: G.machine[i] + ", certain bound", borderDash: [7, 4], data: points(rows, i, axis, "bound", most)},
                      {...bound, label: G.machine[i] + ", probable bound", borderDash: [1.5, 3], data: points(rows, i, axis, "probable_bound", most)});
        }
        at("gemm-note").textContent = `${measures[measure][0].toUpperCase()}${measures[measure].slice(1)}; ${chosen("gemm-rest")}. ` +
            (isBounded ? "Dashed: certain bound (all local errors have their maximum size and the same sign); dotted: probable bound (mean truncation error plus λ standard deviations). " : "") +
            (exact.length ? `No error: ${exact.join(", ")}. ` : "") + (G.left_out ? `${G.left_out} rows are not shown. ` : "");
        say("gemm", `${measures[measure]} over ${axes[axis]}; ${G.set[chosen("gemm-set")]}; ${chosen("gemm-rest")}. Curves: ${sets.map(set => set.label).join(", ")}.`);
        const datasets = [...stacked(sets), ...bounds], more = scales(rows, axis, datasets);
        more.yMore.title = {display: true, text: measures[measure], color: css("--quiet")};
        return {datasets, ...more};
    });
    plot("gemm-sum", {y: "out[0,0]", tooltip: tooltips}, () => {
        const rows = inPlot(), axis = chosen("gemm-axis"), first = Math.min(...rows.map(r => r.seed)), one = rows.filter(r => r.seed === first);
        // A logarithmic axis cannot show a sum that changes its sign.
        const isGrowing = one.length > 0 && one.every(r => r.first_exact > 0);
        const sets = isGrowing ? stacked(shownMachines(one).map(i => curveOf(i, points(one, i, axis, "first", most))).filter(set => set.data.length)) : [];
        if (sets.length) {
            sets.push({label: "exact", data: values(one, axis).map(x => ({x, y: one.find(r => r[axis] === x).first_exact})), borderColor: css("--quiet"),
                       borderWidth: 2.2 * sets.length + 3, order: 90});
        }
        at("gemm-sum").closest("figure").style.display = at("gemm-sum").parentElement.style.display = sets.length ? "" : "none";
        say("gemm-sum", `Output [0,0] of ${G.set[chosen("gemm-set")]} over ${axes[axis]}; seed ${first}; ${chosen("gemm-rest")}.`);
        at("gemm-sum-note").textContent = `Output [0,0], seed ${first}; ${chosen("gemm-rest")}.`;
        return {datasets: sets, ...scales(one, axis, sets)};
    });
    for (const id of ["gemm-set", "gemm-axis", "gemm-rest", "gemm-measure", "gemm-bounds"]) at(id).onchange = () => { choose(); redraw(); };
}

