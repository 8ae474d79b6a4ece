"use strict";

/*
 * A table of the matrix is one stop of the Tab key. Arrow keys go from link to link in it, Home and
 * End to the ends of a line. Without this script every link is a stop.
 */

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

function roving(within) {
  for (const region of within.querySelectorAll(".region.matrix[tabindex]")) {
    const links = [...region.querySelectorAll("a")];
    const stop = region.querySelector("tbody td a") ?? links[0];
    if (!stop) continue;
    for (const each of links) if (each.tabIndex !== -1) each.tabIndex = -1; // to set it takes long
    stop.tabIndex = 0;
    region.removeAttribute("tabindex"); // a link that gets the focus scrolls it
  }
}

/* The next link in a direction; cells and lines without one are skipped. */
function beyond(cell, [down, right]) {
  const lines = [...cell.closest("table").rows];
  let [line, column] = [lines.indexOf(cell.parentElement) + down, cell.cellIndex + right];
  while (lines[line] && column >= 0 && column < lines[line].cells.length + Math.abs(down)) {
    const found = lines[line].cells[column]?.querySelector("a");
    if (found) return found;
    [line, column] = [line + down, column + right];
  }
  return null;
}

function target(event, cell) {
  const line = [...cell.parentElement.querySelectorAll("a")];
  if (event.key === "Home") return line[0];
  if (event.key === "End") return line.at(-1);
  return event.key in STEPS ? beyond(cell, STEPS[event.key]) : null;
}

addEventListener("keydown", (event) => {
  const cell = event.target.closest?.(".region.matrix a")?.closest("th, td");
  if (!cell || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const next = target(event, cell);
  if (!next) return;
  event.preventDefault();
  next.focus();
});

addEventListener("focusin", (event) => {
  const link = event.target.closest(".region.matrix a");
  if (!link) return;
  for (const each of link.closest(".region").querySelectorAll('a[tabindex="0"]')) {
    each.tabIndex = -1;
  }
  link.tabIndex = 0;
});

/* What a cell of the heat map means stands below it, also for readers without a pointer. */
const said = document.getElementById("said");
for (const kind of said ? ["focusin", "pointerover"] : []) {
  addEventListener(kind, (event) => {
    const cell = event.target.closest?.(".map td a");
    if (cell) said.textContent = cell.title;
  });
}

roving(document);
