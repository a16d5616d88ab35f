// ---- pictures ------------------------------------------------------------------------------------------------------
/** Returns the chart with its title and a description. A canvas is transparent, so it gets the background of the figure. */
const picture = canvas => {
    const copy = document.createElement("canvas"), g = copy.getContext("2d"), ratio = canvas.clientWidth ? canvas.width / canvas.clientWidth : 1;
    const wide = Math.max(1, canvas.width / ratio), figure = canvas.closest("figure"), title = figure.querySelector("figcaption b").textContent;
    const lines = (text, style) => {
        g.font = style;
        const out = [];
        for (const word of text.split(" ")) {
            const longer = out.length ? `${out[out.length - 1]} ${word}` : word;
            if (!out.length || g.measureText(longer).width > wide - 24) out.push(word); else out[out.length - 1] = longer;
        }
        return out.map(line => ({line, style}));
    };
    const text = [...lines(title, font(14, "600")), ...lines(said[canvas.id] || "", font(12))], top = 20 * text.length + 14;
    copy.width = canvas.width; copy.height = canvas.height + top * ratio;
    g.scale(ratio, ratio);
    g.fillStyle = css("--panel"); g.fillRect(0, 0, wide, copy.height / ratio);
    g.fillStyle = css("--ink"); g.textBaseline = "middle";
    text.forEach(({line, style}, k) => { g.font = style; g.fillText(line, 12, 18 + 20 * k); });
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.drawImage(canvas, 0, top * ratio);
    return copy.toDataURL("image/png");
};
document.querySelectorAll("figure:has(canvas)").forEach(figure => {
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
// For `macheps report --png`: #picture is the page without its controls, #picture=top is the part above the curves,
// and #chart=NAME is one chart that fills the window.
const asked = location.hash.slice(1);
if (asked.startsWith("picture")) root.classList.add("picture");
if (asked === "picture=top") root.classList.add("only-top");
if (asked.startsWith("chart=")) {
    root.classList.add("picture", "one-chart");
    const figure = at(asked.slice(6))?.closest("figure");
    if (figure) {
        figure.classList.add("chosen");
        figure.closest("section").classList.add("chosen-section");
        // A chart with a menu of policies shows one policy, which its description names.
        if (figure.querySelector("select[id$='-policy']")) root.classList.add("one-policy");
    }
}

redraw();
if (asked) {
    const isDrawn = canvas => canvas.getClientRects().length > 0;
    root.dataset.height = root.scrollHeight;
    root.dataset.charts = [...document.querySelectorAll("figure .plot canvas, .heat-scroll canvas, .drawn svg")].filter(isDrawn)
        .map(canvas => `${canvas.id}:${canvas.id === "heat" || canvas.id === "forest" ? Math.max(560, canvas.offsetHeight + 240) : canvas.viewBox ? Math.ceil(canvas.viewBox.baseVal.height * 1.65) + 130 : 560}`).join(" ");
}
darkQuery.addEventListener("change", redraw);
// A headless browser may set the size of the picture late.
if (asked.startsWith("chart=")) window.addEventListener("resize", redraw);
let resizing = 0;
window.addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(drawHeat, 100); });

// Printed: in light colours, as wide as a page, with the choices of the menus in words.
const forPaper = isPaper => {
    root.classList.toggle("printing", isPaper);
    for (const chart of Object.values(charts)) chart.resize();
    redraw();
};
window.addEventListener("beforeprint", () => forPaper(true));
window.addEventListener("afterprint", () => forPaper(false));
