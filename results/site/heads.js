"use strict";

/*
 * Keeps the names of the columns in sight. The page scrolls down and a table only sideways, so that
 * scrolling never gets stuck in a table. That is why a head cannot stick to the window, and this
 * script shows a copy of its first line.
 */

const copied = document.createElement("div");
copied.className = "matrix heads";
copied.setAttribute("aria-hidden", "true"); // the table itself has them
copied.hidden = true;
document.body.append(copied);
let copiedOf = null;

function namesOf(region) {
  const table = document.createElement("table");
  const line = region.querySelector(".stacks").cloneNode(true);
  for (const each of line.querySelectorAll("a")) each.replaceWith(...each.childNodes);
  table.createTHead().append(line);
  return table;
}

function follows() {
  const high = copied.offsetHeight;
  const crossing = [...document.querySelectorAll(".region.matrix:not(.map)")].find((region) => {
    const head = region.querySelector(".stacks")?.getBoundingClientRect();
    return head && head.bottom < 0 && region.getBoundingClientRect().bottom > 2 * high;
  });
  copied.hidden = !crossing;
  if (!crossing) return;
  if (crossing !== copiedOf) copied.replaceChildren(namesOf(crossing));
  copiedOf = crossing;
  const { left, width } = crossing.getBoundingClientRect();
  Object.assign(copied.style, { left: `${left}px`, width: `${width}px` });
  copied.scrollLeft = crossing.scrollLeft;
}

let isDue = false;
function soon() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    follows();
  });
}

addEventListener("scroll", soon, { capture: true, passive: true }); // of the page and its regions
addEventListener("resize", soon);
