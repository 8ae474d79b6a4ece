"use strict";

/* On paper nothing scrolls: a wide table is printed as several, each with some of the stacks. */

// How many columns can be read side by side on a page; those of the heat map are narrow.
const most = (region) => (region.classList.contains("map") ? 24 : 8);

function parts(region) {
  const columns = region.querySelector(".stacks").cells.length - 1;
  const count = Math.ceil(columns / most(region));
  const wide = Math.ceil(columns / count); // as many on the last page as on the others
  return Array.from({ length: count }, (_, part) => partOf(region, part * wide, (part + 1) * wide));
}

function partOf(region, start, end) {
  const part = region.cloneNode(true);
  for (const line of part.querySelectorAll("tr:not(.scenario)")) {
    const cells = [...line.cells].slice(1);
    for (const cell of [...cells.slice(0, start), ...cells.slice(end)]) cell.remove();
  }
  for (const filler of part.querySelectorAll("[colspan]")) filler.colSpan = end - start;
  const named = start ? [part, ...part.querySelectorAll("[id]")] : []; // an id must be unique
  for (const each of named) each.removeAttribute("id");
  part.classList.add("part");
  return part;
}

const whole = new Map();

addEventListener("beforeprint", () => {
  for (const region of document.querySelectorAll(".region.matrix")) {
    if ((region.querySelector(".stacks")?.cells.length ?? 0) <= most(region) + 1) continue;
    const made = parts(region);
    region.replaceWith(...made);
    whole.set(region, made);
  }
});

addEventListener("afterprint", () => {
  for (const [region, [first, ...others]] of whole) {
    first.replaceWith(region);
    for (const each of others) each.remove();
  }
  whole.clear();
});
