"use strict";
(() => {
  const byId = (name) => document.getElementById(name);

  // The slider moves every text and mark of the path together. All texts are made beforehand.
  const slider = byId("level");
  if (slider) {
    const { chosen, levels } = JSON.parse(byId("path-data").textContent);
    const states = [...document.querySelectorAll("[data-entry]")];
    const back = byId("level-back");
    const place = (name, places) => {
      for (const [attribute, value] of Object.entries(places)) byId(name).setAttribute(attribute, value);
    };
    const show = (k) => {
      const { text, at, spoken } = levels[k];
      for (const [name, words] of Object.entries(text)) byId("path-" + name).textContent = words;
      place("mark-line", { x1: at.x, x2: at.x });
      place("mark-whole", { x1: at.x, x2: at.x, y1: at.lower, y2: at.upper });
      place("mark-sampling", { x1: at.x, x2: at.x, y1: at.inner_lower, y2: at.inner_upper });
      for (const name of ["estimate", "corrected", "ess"]) place("mark-" + name, { cx: at.x, cy: at[name] });
      for (const state of states) state.hidden = Number(state.dataset.entry) > k;
      slider.setAttribute("aria-valuetext", spoken);
      back.hidden = k === chosen;
    };
    slider.addEventListener("input", () => show(Number(slider.value)));
    back.addEventListener("click", () => {
      slider.value = chosen;
      show(chosen);
      slider.focus();
    });
    // Paper shows the level that was chosen, wherever the slider stands.
    addEventListener("beforeprint", () => show(chosen));
    addEventListener("afterprint", () => show(Number(slider.value)));
  }

  // The marks of the scatter say their state when pointed at or focused; arrow keys go from one to the next.
  const points = [...document.querySelectorAll("#scatter .point")];
  const label = byId("scatter-label");
  const tell = (point) => {
    label.textContent = point.getAttribute("aria-label");
    label.hidden = false;
    const box = label.parentElement.getBoundingClientRect();
    const mark = point.getBoundingClientRect();
    const left = mark.left - box.left + mark.width / 2 - label.offsetWidth / 2;
    label.style.left = Math.max(4, Math.min(left, box.width - label.offsetWidth - 4)) + "px";
    const above = mark.top - box.top - label.offsetHeight - 8;
    label.style.top = (above > 4 ? above : mark.bottom - box.top + 8) + "px";
  };
  const hush = () => {
    label.hidden = true;
  };
  points.forEach((point, i) => {
    point.addEventListener("pointerenter", () => tell(point));
    point.addEventListener("pointerleave", hush);
    point.addEventListener("focus", () => tell(point));
    point.addEventListener("blur", hush);
    point.addEventListener("keydown", (event) => {
      const to = { ArrowRight: i + 1, ArrowUp: i + 1, ArrowLeft: i - 1, ArrowDown: i - 1, Home: 0, End: points.length - 1 };
      if (event.key === "Escape") hush();
      const next = points[to[event.key]];
      if (!next) return;
      event.preventDefault();
      point.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  });

  // A hint that a table goes on is shown where it does.
  const hints = [...document.querySelectorAll(".hint")];
  const measure = () => {
    for (const hint of hints) {
      const box = hint.nextElementSibling;
      hint.style.display = box.scrollWidth > box.clientWidth + 1 ? "block" : "none";
    }
  };
  addEventListener("resize", measure);
  measure();

  // The headings of the table of states sort it: numbers largest first, words in alphabetical order.
  const table = byId("states-table");
  if (table) {
    const headings = [...table.tHead.rows[0].cells];
    const number = (text) => (text === "∞" ? Infinity : Number(text.replaceAll(",", "").replaceAll("−", "-")));
    const compare = (a, b) => {
      const difference = number(a) - number(b);
      return Number.isNaN(difference) ? a.localeCompare(b, "en", { numeric: true }) : difference;
    };
    headings.forEach((heading, column) => {
      heading.querySelector("button").addEventListener("click", () => {
        const before = heading.getAttribute("aria-sort");
        const first = column === 0 ? "ascending" : "descending";
        const second = column === 0 ? "descending" : "ascending";
        const order = before === first ? second : first;
        for (const other of headings) other.removeAttribute("aria-sort");
        heading.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const rows = [...table.tBodies[0].rows].map((row) => [row.cells[column].textContent, row]);
        rows.sort((a, b) => sign * compare(a[0], b[0]));
        table.tBodies[0].append(...rows.map((entry) => entry[1]));
        byId("states-sorted").textContent = "Sorted by " + heading.textContent.trim() + ", " + order;
      });
    });
  }
})();
