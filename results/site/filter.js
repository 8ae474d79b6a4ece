"use strict";

/*
 * What a filter is, which cells match it, and both in words. explore.js shows it; draw.js has the
 * data by name.
 */

const VERDICTS = { pass: ["passes ✓", "p"], fail: ["fails ✗", "f"], open: ["not judged –", "n"] };
const NOUNS = { a: "stack", b: "stack" };
const FIELDS = ["device", "scenario", "role", "outcome", ...PACKAGES, "a", "b", "page"];

/* A filter is a plain object with a text for each field that is set. A range is "from..to". */

function read(fragment) {
  const asked = new URLSearchParams(fragment.replace(/^#/, ""));
  const given = FIELDS.filter((name) => asked.get(name));
  return Object.fromEntries(given.map((name) => [name, asked.get(name)]));
}

function write(filter) {
  const given = FIELDS.filter((name) => filter[name]);
  const fragment = new URLSearchParams(given.map((name) => [name, filter[name]]));
  return fragment.toString().replaceAll("%3A", ":");
}

/* The result of a filter: columns are indices of stacks, lines are rows that are shown. */

function isPair(filter) {
  return Boolean(filter.a && filter.b && filter.a !== filter.b);
}

function chosenStacks(filter) {
  const indexOf = (name) => stacks.findIndex((stack) => stack[0] === name);
  const indices = isPair(filter) ? [filter.a, filter.b].map(indexOf) : [...stacks.keys()];
  const ranges = PACKAGES.map((name) => range(name, filter[name]));
  return indices.filter((index) =>
    ranges.every((each, place) => within(stacks[index][2][place], each)),
  );
}

function range(name, text) {
  if (!text) return null;
  const [from, to] = text.split("..");
  const [low, high] = [packages[name].indexOf(from), packages[name].indexOf(to)];
  return [low, high < 0 ? Infinity : high];
}

function within(rank, limits) {
  return limits === null || (rank !== null && rank >= limits[0] && rank <= limits[1]);
}

function accepts(outcome) {
  if (!outcome) return null;
  const verdict = VERDICTS[outcome];
  return kinds.map((kind) => (verdict ? kind[0] === verdict[1] : kind[3] === outcome));
}

function differ(row, [first, second]) {
  const [one, other] = [first, second].map((index) => kinds[KIND_OF.get(row[4][index])]);
  return one[3] !== other[3] || one[0] !== other[0] || one[4] !== other[4];
}

function select(filter) {
  const accepted = accepts(filter.outcome);
  let columns = chosenStacks(filter);
  let lines = rows.filter(
    (row) =>
      (!filter.device || sections[row[0]][1] === filter.device) &&
      (!filter.scenario || row[1] === filter.scenario) &&
      (!filter.role || row[3] === filter.role),
  );
  const has = (row, index) => accepted[KIND_OF.get(row[4][index])];
  if (accepted) lines = lines.filter((row) => columns.some((index) => has(row, index)));
  if (isPair(filter)) return { columns, ...compared(lines, columns) };
  if (accepted) columns = columns.filter((index) => lines.some((row) => has(row, index)));
  return { accepted, columns, lines };
}

/* Of two stacks both cells are shown, even if only one of them has the chosen outcome. */
function compared(lines, columns) {
  if (columns.length < 2) return { lines: [], left: lines.length };
  return { lines: lines.filter((row) => differ(row, columns)), left: lines.length };
}

/* What is shown, in words. */

function counted(count, all, noun) {
  return count === all ? `all ${all} ${noun}` : `${count} of ${all} ${noun}`;
}

function asksFor(filter) {
  const ranges = PACKAGES.filter((name) => filter[name]).map((name) => {
    const [from, to] = filter[name].split("..");
    return [name, ...(from ? [`from ${from}`] : []), ...(to ? [`to ${to}`] : [])].join(" ");
  });
  const outcome = VERDICTS[filter.outcome]?.[0] ?? filter.outcome;
  const single = { scenario: filter.scenario, role: filter.role, outcome, device: filter.device };
  const given = Object.entries(single).filter(([, value]) => value);
  const named = given.map(([name, value]) => `${name} ${value}`);
  const all = [...named, ...ranges];
  return all.length ? [`Filtered: ${all.join(", ")}.`] : [];
}

function halfPair(filter) {
  if (!(filter.a || filter.b) || isPair(filter)) return [];
  if (filter.a && filter.b) return ["To compare, choose two different stacks."];
  return [`To compare ${filter.a ?? filter.b}, choose a second stack.`];
}

function nothing(missing) {
  return `Nothing matches this filter: the matrix has ${missing.join(" and ")}.`;
}

function count(lines, columns, shown) {
  if (!lines.length || !columns.length) return "Nothing matches this filter.";
  const first = columns.indexOf(shown[0]) + 1;
  const last = first + shown.length - 1;
  const part = shown.length < columns.length ? `; of these, ${first} to ${last} are below` : "";
  const variants = counted(lines.length, rows.length, "variants");
  return `Shows ${variants} on ${counted(columns.length, stacks.length, "stacks")}${part}.`;
}

function difference({ a, b }, lines, columns, left) {
  const pair = [a, b].map((name) => stacks.findIndex((stack) => stack[0] === name));
  const outside = pair.filter((index) => !columns.includes(index)).map((index) => stacks[index][0]);
  if (outside.length) {
    return `Nothing to compare: ${outside.join(" and ")} not within the chosen releases.`;
  }
  const between = `differ between ${a} and ${b}`;
  if (left === rows.length) return `${counted(lines.length, rows.length, "variants")} ${between}.`;
  const all = rows.filter((row) => differ(row, pair)).length;
  const unfiltered = `without filters, ${all} of ${rows.length}`;
  return `${lines.length} of the ${left} filtered variants ${between}; ${unfiltered}.`;
}
