"use strict";

/*
 * Draws tables of the matrix from elements and text, never from HTML. (Plain scripts share their
 * names: a module would not load from a file.) data.js defines GRADMATRIX:
 *   stacks    [name, date, [rank of each package's version, or null], build of torch if stacks
 *             differ in it], the newest first
 *   packages  {name: [versions in their order]}
 *   sections  [question, device, is misuse]
 *   kinds     [class, word, note, outcome, gradient]; the note of a rate is "#"
 *   titles    {word: its meaning}
 *   alphabet  the letter of each kind
 *   rows      [section, scenario, variant, role, a letter per stack, rates in the same order]
 */

const { alphabet, kinds, packages, rows, sections, stacks, titles } = GRADMATRIX;
const PACKAGES = Object.keys(packages);
const UNLIKE_BUILDS = stacks.some(([, , , build]) => build);
const KIND_OF = new Map([...alphabet].map((letter, index) => [letter, index]));

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function link(address, ...children) {
  return make("a", { href: address }, ...children);
}

function path(...parts) {
  return parts.map(encodeURIComponent).join("/");
}

/* Text that may go on in the next line after one of the marks. */
function broken(text, marks) {
  const parts = text.split(new RegExp(`(?<=[${marks}])`));
  return parts.flatMap((part, index) => (index ? [document.createElement("wbr"), part] : [part]));
}

/*
 * ``next`` is the column after the last one, on the next page. A version is bold if it differs from
 * that in the next column.
 */
function table(section, lines, columns, accepted, next) {
  const [question, device] = sections[section];
  const anchor = `shown-${section}-caption`;
  const caption = make("caption", { id: anchor }, `${question} (${device})`);
  const element = make("table", {}, caption, head(columns, next));
  const byScenario = grouped(lines);
  for (const [scenario, members] of byScenario) {
    const name = link(`scenarios/${path(scenario)}.html`, ...broken(scenario, "_-"));
    const title = make("th", { scope: "rowgroup" }, name);
    const rest = make("td", { colspan: columns.length });
    const body = make("tbody", {}, make("tr", { class: "scenario" }, title, rest));
    for (const row of members) body.append(line(row, device, columns, accepted));
    element.append(body);
  }
  const region = { class: "region matrix", role: "region", tabindex: "0" };
  return make("div", { ...region, "aria-labelledby": anchor }, element);
}

function grouped(lines) {
  const found = new Map();
  for (const row of lines) found.set(row[1], [...(found.get(row[1]) ?? []), row]);
  return found;
}

function head(columns, next) {
  const names = columns.map((index) => {
    const [name] = stacks[index];
    return make("th", { scope: "col" }, link(`stacks/${path(name)}.html`, ...broken(name, "_-")));
  });
  const dates = columns.map((index) => make("td", {}, stacks[index][1]));
  return make(
    "thead",
    {},
    make("tr", { class: "stacks" }, make("th", { scope: "col" }, "stack"), ...names),
    make("tr", { class: "version" }, make("th", { scope: "row" }, "as of"), ...dates),
    ...PACKAGES.map((name, place) => {
      const title = make("th", { scope: "row" }, link(`packages/${path(name)}.html`, name));
      const version = (index) => packages[name][stacks[index][2][place]];
      return make("tr", { class: "version" }, title, ...beside(columns, next, version));
    }),
    ...(UNLIKE_BUILDS ? [builds(columns, next)] : []),
  );
}

function builds(columns, next) {
  const title = make("th", { scope: "row" }, "build of torch");
  const cells = beside(columns, next, (index) => stacks[index][3]);
  return make("tr", { class: "version" }, title, ...cells);
}

/* A cell for each column; in bold where the next one has another text. */
function beside(columns, next, text) {
  return columns.map((index, place) => {
    const [mine, other] = [text(index), columns[place + 1] ?? next];
    const moved = mine && other !== undefined && text(other) !== mine;
    return make("td", {}, moved ? make("b", {}, mine) : (mine ?? "–"));
  });
}

function line(row, device, columns, accepted) {
  const [, scenario, variant, role, letters] = row;
  const address = `scenarios/${path(scenario)}.html#${path(variant)}`;
  const name = link(address, ...broken(variant, "_-"));
  const title = make("th", { scope: "row" }, name, make("small", {}, role));
  const place = path(`${scenario}-${variant}-${device}`);
  const rates = ratesOf(row);
  const cells = columns.map((index) => {
    const kind = KIND_OF.get(letters[index]);
    if (accepted && !accepted[kind]) return make("td", { class: "x" }, "·");
    return cell(kind, rates[index], EVIDENCE[index] + place);
  });
  return make("tr", {}, title, ...cells);
}

const EVIDENCE = stacks.map(([name]) => `cells/${path(name)}.html#`);

/* Copies of a finished cell are quicker to make than cells. */
const FINISHED = kinds.map(([style, word, note, outcome]) => {
  if (outcome === "not run") return make("td", { class: style }, word);
  const shown = make("a", { href: "", tabindex: "-1" }, word); // arrows.js gives a stop to one
  if (style !== "p" && titles[word]) shown.title = titles[word];
  if (note) shown.append(make("small", {}, ...broken(note, ":")));
  return make("td", { class: style }, shown);
});

function cell(kind, rate, target) {
  const copy = FINISHED[kind].cloneNode(true);
  const address = copy.firstElementChild;
  if (address) address.href = target;
  if (rate !== null) address.lastChild.firstChild.data = `${rate}/s`;
  return copy;
}

/* A row's rates by stack; they are taken apart when the row is first shown. */
const RATES = new Map();

function ratesOf(row) {
  if (!RATES.has(row)) {
    const rates = row[5].split(",");
    let next = 0;
    RATES.set(
      row,
      [...row[4]].map((letter) => (kinds[KIND_OF.get(letter)][2] === "#" ? rates[next++] : null)),
    );
  }
  return RATES.get(row);
}
