"use strict";
// Filters, search and sorting. Without script the page shows everything, in the order of its studies.
(() => {
  const numeric = (text) => (/^[-+]?[\d.]/.test(text) ? parseFloat(text.replace(/,(?=\d{3})/g, "")) : NaN);
  const compare = (a, b) => {
    const x = numeric(a), y = numeric(b);
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || a.localeCompare(b);
    return x - y;
  };
  const keyOf = (row, column) => row.cells[column].dataset.key ?? row.cells[column].textContent.trim();

  const sort = (table, header) => {
    const descending = header.getAttribute("aria-sort") === "ascending";
    for (const other of header.parentElement.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const body = table.tBodies[0], column = header.cellIndex, sign = descending ? -1 : 1;
    body.append(...[...body.rows].sort((a, b) => sign * compare(keyOf(a, column), keyOf(b, column))));
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    for (const header of table.tHead.rows[0].cells) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...header.childNodes);
      button.addEventListener("click", () => sort(table, header));
      header.append(button);
    }
  }

  const tools = document.getElementById("tools");
  if (tools) {
    const rows = [...document.querySelectorAll("tr[data-outcome]")];
    const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
    const chips = [...tools.querySelectorAll("button")], search = tools.querySelector("input");
    const status = tools.querySelector("[role=status]");
    const count = (shown, all) => (shown === all ? `${all}` : `${shown} of ${all}`);
    const show = () => {
      const outcome = chips.find((chip) => chip.ariaPressed === "true").dataset.outcome;
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        const listed = !outcome || row.dataset.outcome.split("|").includes(outcome);
        row.hidden = !(listed && words.every((word) => texts.get(row).includes(word)));
      }
      for (const group of document.querySelectorAll("[data-claims]")) {
        const members = [...group.querySelectorAll("tr[data-outcome]")];
        const shown = members.filter((row) => !row.hidden).length;
        group.querySelector(".count").textContent = count(shown, members.length);
        group.hidden = !shown;
        if (group.tagName === "DETAILS") group.open = Boolean(shown && (outcome || words.length));
      }
      status.textContent = `${count(rows.filter((row) => !row.hidden).length, rows.length)} claims shown`;
    };
    for (const chip of chips) {
      chip.addEventListener("click", () => {
        for (const other of chips) other.ariaPressed = String(other === chip);
        show();
      });
    }
    search.addEventListener("input", show);
    tools.hidden = false;
  }

  // A link into something folded opens it.
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();
})();
