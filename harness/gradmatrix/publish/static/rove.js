"use strict";

/*
 * Makes one stop of the keyboard of each grid: the arrows, Home and End move between its links.
 * Without this script each link is a stop.
 */

const MOVES = {
  ArrowDown: [1, 0],
  ArrowUp: [-1, 0],
  ArrowRight: [0, 1],
  ArrowLeft: [0, -1],
  Home: [0, -Infinity],
  End: [0, Infinity],
};

for (const table of document.querySelectorAll(".grid table")) {
  const links = [...table.rows].map((row) => [...row.cells].map((cell) => cell.querySelector("a")));
  let stop = table.querySelector("a");
  for (const link of table.querySelectorAll("a")) link.tabIndex = link === stop ? 0 : -1;

  /* The next link in a direction; an infinite step goes to the last one. */
  function next(row, column, [down, right]) {
    const path = [];
    for (let r = row + down, c = column + Math.sign(right); links[r]?.[c] !== undefined; ) {
      if (links[r][c]) path.push(links[r][c]);
      r += down;
      c += Math.sign(right);
    }
    return Math.abs(right) > 1 ? path.at(-1) : path[0];
  }

  table.addEventListener("focusin", ({ target }) => {
    stop.tabIndex = -1;
    stop = target;
    stop.tabIndex = 0;
  });
  table.addEventListener("keydown", (event) => {
    const cell = event.target.closest("th, td");
    const move = MOVES[event.key];
    if (!move || !cell || event.altKey || event.ctrlKey || event.metaKey) return;
    const to = next(cell.parentElement.rowIndex, cell.cellIndex, move);
    if (!to) return;
    event.preventDefault();
    to.focus();
  });
}
