"use strict";

/*
 * Filters the matrix on the first page with filter.js, and shows the tables of draw.js. The address
 * contains the filter after the #, so that it can be shared. This works from a file too.
 */

const MOST_STACKS = 24; // of a view
/* The most cells of a view, and the fewest stacks. More of many take longer than a filter may. */
const MANY = { most: 1000, fewest: 4 };
const FEW = { most: 2000, fewest: 6 }; // as on the page without a filter

const form = document.getElementById("filters");
const tables = document.getElementById("tables");
const status = document.getElementById("status");
const newest = (tables.querySelector(".stacks")?.cells.length ?? 1) - 1;
const still = [...tables.childNodes]; // the tables of the page: all scenarios on the newest stacks

/* Showing it. */

function show(filter) {
  const fields = [...form.elements].filter((field) => field.name);
  const missing = fields.flatMap((field) => fill(field, valueOf(filter, field)));
  if (write(filter) === "") {
    const columns = counted(newest, stacks.length, "stacks");
    status.textContent = `Shows all ${rows.length} variants on ${columns}.`;
    tables.replaceChildren(...still);
    return;
  }
  const selected = missing.length ? { columns: [], lines: [] } : select(filter);
  const { accepted, columns, lines, left } = selected;
  const { most, fewest } = columns.length > MOST_STACKS ? MANY : FEW;
  const fitting = Math.floor(most / Math.max(1, lines.length));
  const wide = Math.min(MOST_STACKS, Math.max(fewest, fitting));
  const pages = Math.max(1, Math.ceil(columns.length / wide));
  const page = Math.min(pages, Math.max(1, Number.parseInt(filter.page ?? "1", 10) || 1));
  const [start, end] = [(page - 1) * wide, page * wide];
  const shown = columns.slice(start, end);
  let result;
  if (missing.length) result = nothing(missing);
  else if (isPair(filter)) result = difference(filter, lines, columns, left);
  else result = count(lines, columns, shown);
  status.textContent = [...asksFor(filter), ...halfPair(filter), result].join(" ");
  const bySection = sections.map((_, section) => lines.filter((row) => row[0] === section));
  const drawn = bySection
    .map((each, section) => [each, section])
    .filter(([each]) => each.length && shown.length);
  const made = new DocumentFragment(); // a change of the page itself costs more
  made.append(
    ...drawn.map(([each, section]) => table(section, each, shown, accepted, columns[end])),
    ...turning(filter, page, pages),
  );
  roving(made);
  tables.replaceChildren(made);
}

function valueOf(filter, field) {
  const [name, side] = field.name.split(".");
  const text = filter[name] ?? "";
  return side ? (text.split("..")[side === "from" ? 0 : 1] ?? "") : text;
}

/* A value that the matrix does not have is shown as unknown: the field must not look empty. */
function fill(field, value) {
  field.querySelector("[data-unknown]")?.remove();
  field.value = value;
  const isKnown = field.value === value;
  if (!isKnown) {
    const extra = option(value, `${value} (unknown)`);
    extra.dataset.unknown = "";
    field.append(extra);
    field.value = value;
  }
  const [name] = field.name.split(".");
  return isKnown ? [] : [`no ${NOUNS[name] ?? name} “${value}”`];
}

function turning(filter, page, pages) {
  if (pages === 1) return [];
  const button = (text, target) => {
    const element = make("button", { type: "button" }, text);
    element.disabled = target < 1 || target > pages;
    const there = { ...filter, page: target > 1 ? String(target) : "" };
    element.addEventListener("click", () => go(there));
    return element;
  };
  const newer = button("← newer stacks", page - 1);
  const older = button("older stacks →", page + 1);
  return [make("p", { class: "buttons" }, newer, " ", older)];
}

/* The form: a select for each field, made here because it does nothing without this script. */

function option(value, text = value) {
  const element = make("option", { value });
  element.textContent = text;
  return element;
}

function choice(name, label, options, any = "any") {
  const element = make("select", { name, id: `filter-${name}` }, option("", any), ...options);
  return make("div", {}, make("label", { for: `filter-${name}` }, label), element);
}

function span(name) {
  const side = (which, label) => {
    const options = packages[name].map((text) => option(text));
    const named = { name: `${name}.${which}`, "aria-label": `${name} ${label}` };
    return make("select", named, option("", label), ...options);
  };
  const legend = make("legend", {}, `${name} release`);
  return make("fieldset", {}, legend, side("from", "from any"), side("to", "to any"));
}

function distinct(place) {
  return [...new Set(rows.map((row) => row[place]))].map((text) => option(text));
}

function build() {
  const devices = [...new Set(sections.map((section) => section[1]))].map((text) => option(text));
  const outcomes = [...new Set(kinds.map((kind) => kind[3]))].sort();
  const names = () => stacks.map((stack) => option(stack[0], `${stack[0]} (${stack[1]})`));
  document.getElementById("fields").append(
    choice("scenario", "Scenario", distinct(1)),
    choice("role", "Role", distinct(3)),
    choice("outcome", "Outcome", [
      ...Object.entries(VERDICTS).map(([value, [text]]) => option(value, text)),
      ...outcomes.map((text) => option(text)),
    ]),
    choice("device", "Device", devices),
    ...PACKAGES.map(span),
    choice("a", "Only what differs between", names(), "two stacks: choose one"),
    choice("b", "and", names(), "the other"),
  );
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", () => go(asked()));
  document.getElementById("reset").addEventListener("click", () => go({}));
  document.getElementById("copy").addEventListener("click", copy);
  form.hidden = false;
  document.getElementById("acts").hidden = false;
}

function asked() {
  const fields = [...form.elements].filter((each) => each.name);
  const values = Object.fromEntries(fields.map((each) => [each.name, each.value]));
  for (const name of PACKAGES) {
    const [from, to] = [values[`${name}.from`], values[`${name}.to`]];
    values[name] = from || to ? `${from}..${to}` : "";
  }
  return values;
}

let settling;
function go(filter) {
  const fragment = write(filter);
  if (fragment === location.hash.replace(/^#/, "")) return;
  const address = fragment ? `#${fragment}` : location.href.replace(/#.*$/, "");
  history.pushState("chosen here", "", address);
  tables.classList.add("fresh"); // what is in sight is laid out first
  show(read(fragment));
  clearTimeout(settling);
  requestAnimationFrame(() => {
    settling = setTimeout(() => tables.classList.remove("fresh"), 100); // after it was drawn
  });
}

async function copy() {
  try {
    await navigator.clipboard.writeText(location.href);
    status.textContent = "The address is copied.";
  } catch {
    status.textContent = `The address: ${location.href}`;
  }
}

/* Search by message: errors.html does it. */

function search() {
  const form = document.getElementById("search");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = document.getElementById("message").value.trim();
    if (text) location.href = `errors.html#q=${encodeURIComponent(text.slice(-20000))}`;
  });
  form.hidden = false;
  document.querySelector(".without-script").hidden = true;
}

/* A fragment that is an anchor (the skip link) is no filter, and changes nothing. */
const isFilter = (fragment) => fragment === "" || fragment.includes("=");
const follow = () => isFilter(location.hash) && show(read(location.hash));

/* A reader who was sent a filter wants to see its result, not the top of the page. */
function arrive() {
  const isSent = isFilter(location.hash) && write(read(location.hash)) !== "";
  if (isSent && history.state === null) document.getElementById("shown").scrollIntoView();
}

build();
search();
window.addEventListener("hashchange", () => {
  follow();
  arrive();
});
window.addEventListener("popstate", follow);
show(isFilter(location.hash) ? read(location.hash) : {});
if (performance.getEntriesByType("navigation")[0]?.type === "navigate") arrive();
