"use strict";
(() => {
  const PRINTED_WIDTH = 680; // pixels between the margins of a sheet
  const nonce = document.currentScript.nonce;
  const plots = () => [...document.querySelectorAll(".plot")];

  // Tables: a click sorts, another turns the order round; expanded rows stay below theirs.
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    table.querySelectorAll("th button.sort").forEach((button) => {
      button.addEventListener("click", () => {
        const head = button.closest("th");
        const first = head.dataset.first || "descending";
        const other = first === "descending" ? "ascending" : "descending";
        const order = head.getAttribute("aria-sort") === first ? other : first;
        table.querySelectorAll("th[aria-sort]").forEach((each) => each.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const column = head.cellIndex;
        const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
        const compare = (a, b) => {
          const [x, y] = [key(a), key(b)];
          if (x === "" || y === "") return (x === "") - (y === ""); // what has no value comes last
          const difference = Number(x) - Number(y);
          return sign * (Number.isNaN(difference) ? x.localeCompare(y) : difference);
        };
        const rows = [...body.rows].filter((row) => !row.classList.contains("detail"));
        for (const row of rows.sort(compare)) {
          const detail = row.dataset.detail && document.getElementById(row.dataset.detail);
          body.append(row);
          if (detail) body.append(detail);
        }
      });
    });
  }
  for (const button of document.querySelectorAll("button.expand")) {
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") !== "true";
      button.setAttribute("aria-expanded", String(open));
      document.getElementById(button.getAttribute("aria-controls")).hidden = !open;
    });
  }

  // Figures: Plotly is inside the page, compressed.
  const packed = document.getElementById("plotly");
  if (!packed) return;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"] };

  async function unpack() {
    const bytes = Uint8Array.from(atob(packed.textContent.trim()), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.nonce = nonce;
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  }
  function draw(place) {
    if (place.dataset.drawn) return undefined;
    place.dataset.drawn = "yes";
    const { data, layout } = figures[place.dataset.figure];
    return Plotly.newPlot(place, data, layout, config);
  }
  function printing() {
    for (const place of plots()) if (place.dataset.drawn) Plotly.relayout(place, { width: PRINTED_WIDTH });
  }
  function printed() {
    for (const place of plots()) if (place.dataset.drawn) Plotly.relayout(place, { width: null, autosize: true });
  }
  function failed(error) {
    for (const place of plots()) place.textContent = "The figures could not be drawn: " + error.message;
  }
  if (typeof DecompressionStream === "undefined") {
    failed(new Error("they need a browser of 2023 or later."));
    return;
  }
  unpack().then(async () => {
    await Promise.all(plots().filter((place) => !place.closest("details:not([open])")).map(draw));
    for (const details of document.querySelectorAll("details"))
      details.addEventListener("toggle", () => details.open && details.querySelectorAll(".plot").forEach(draw));
    window.addEventListener("beforeprint", printing);
    window.addEventListener("afterprint", printed);
    document.documentElement.dataset.ready = "yes";
  }).catch(failed);
})();
