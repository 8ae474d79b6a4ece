"use strict";

/*
 * The search of errors.html: finds messages, variants and claims for a pasted message, a traceback
 * or a few words. Results share words with the query. Rare words count more; filler words, numbers
 * and addresses do not count. Words in the order of the query count more than scattered ones. The
 * address contains the search: errors.html#q=…
 */

const form = document.getElementById("search");
const box = document.getElementById("message");
const status = document.getElementById("status");
const found = document.getElementById("found");
const matches = document.getElementById("matches");
const others = document.getElementById("others");
const everything = document.getElementById("everything");
const ENOUGH = 0.6;
const ENOUGH_OF_A_QUESTION = 0.75;
const MOST = 20;
const FEW_WORDS = 12; // more than these are a message or a traceback, not a question
const FILLER = new Set(
  (
    "a an and are as at be but by can do does for from has have i if in is it its not of on or " +
    "so than that the then this to was will with you your"
  ).split(" "),
);

/*
 * The words that matter, in the singular: without fillers if others are left, and without numbers
 * but single digits.
 */
function words(text) {
  const plain = text.toLowerCase().replace(/0x[0-9a-f]+|\d{2,}(?:[.,:]\d+)*|\d(?:[.,:]\d+)+/g, " ");
  const parts = plain.match(/[\p{L}_]{2,}|\b\d\b/gu) ?? [];
  const core = parts.filter((word) => !FILLER.has(word));
  return (core.length ? core : parts).map((word) => word.replace(/(?<=[a-z]{3}[^su])s$/, ""));
}

/* What a traceback says at its end; any other text as it is. */
function said(text) {
  const lines = text.trim().split(/\r\n|\r|\n/);
  const inside = lines.findLastIndex((line) => /^[ \t]/.test(line));
  const isTraceback = /Traceback \(most recent call last\)/i.test(text);
  if (!isTraceback || inside < 0 || inside === lines.length - 1) return text;
  return lines.slice(inside + 1).join("\n");
}

function entry(element) {
  const list = words(element.dataset.text);
  return { element, list, joined: ` ${list.join(" ")} `, own: new Set(list) };
}

const messages = [...everything.querySelectorAll("article")].map(entry);
const lines = [...everything.querySelectorAll(".also [data-text]")].map(entry);

const spread = new Map();
for (const { own } of [...messages, ...lines]) {
  for (const word of own) spread.set(word, (spread.get(word) ?? 0) + 1);
}
const size = messages.length + lines.length;
const weight = (word) => Math.log(1 + size / (spread.get(word) ?? 0.5));
const total = (each) => [...each].reduce((sum, word) => sum + weight(word), 0);

/*
 * The weight of the words that a text and the query share. For a question it is a part of the
 * question, else of the shorter of the two.
 */
function covered(text, asked, isQuestion) {
  const shared = total([...asked.own].filter((word) => text.own.has(word)));
  const whole = isQuestion ? total(asked.own) : Math.min(total(text.own), total(asked.own));
  return whole ? shared / whole : 0;
}

/* The heaviest run of words that stand in the same order, without a gap, in both. */
function phrase(text, asked) {
  let best = 0;
  let before = new Map();
  for (const word of asked.list) {
    const now = new Map();
    text.list.forEach((each, place) => {
      if (each === word) now.set(place, (before.get(place - 1) ?? 0) + weight(word));
    });
    best = Math.max(best, ...now.values());
    before = now;
  }
  return best / Math.max(1e-9, Math.min(total(text.list), total(asked.list)));
}

function score(text, asked) {
  if (!text.own.size) return 0;
  const isQuestion = asked.list.length <= FEW_WORDS;
  if (text.joined.includes(asked.joined)) return 3 + 1 / text.list.length;
  if (!isQuestion && asked.joined.includes(text.joined)) return 2 + total(text.own) / 1e6;
  const share = covered(text, asked, isQuestion);
  if (share < (isQuestion ? ENOUGH_OF_A_QUESTION : ENOUGH)) return 0;
  return share / 2 + Math.min(1, phrase(text, asked)) / 2;
}

function best(texts, asked) {
  const scored = texts.map((text) => ({ text, score: score(text, asked) }));
  const good = scored.filter((each) => each.score > 0);
  return good.sort((one, other) => other.score - one.score).map((each) => each.text.element);
}

function search(text) {
  const every = words(said(text));
  // The name of an exception or a warning that no text has is a category in front.
  const known = every.filter((word) => spread.has(word) || !/(?:error|warning|exception)$/.test(word));
  const list = known.length ? known : every;
  const asked = { list, joined: ` ${list.join(" ")} `, own: new Set(list) };
  box.value = text;
  const isAsked = list.length > 0;
  const good = isAsked ? best(messages, asked) : [];
  const also = isAsked ? best(lines, asked) : [];
  matches.replaceChildren(...good.slice(0, MOST).map(copied));
  others.replaceChildren(...also.slice(0, MOST).map((line) => line.cloneNode(true)));
  document.getElementById("found-messages").hidden = good.length === 0;
  document.getElementById("found-others").hidden = also.length === 0;
  found.hidden = good.length + also.length === 0;
  everything.hidden = !found.hidden;
  status.textContent = isAsked ? told(good.length, also.length) : "";
}

function copied(article) {
  const copy = article.cloneNode(true);
  copy.querySelector("details")?.setAttribute("open", "");
  return copy;
}

function told(messageCount, lineCount) {
  if (!messageCount && !lineCount) {
    return "No message of the matrix matches. All messages are below.";
  }
  const parts = [
    messageCount && `${messageCount} message${messageCount > 1 ? "s" : ""}`,
    lineCount && (lineCount > 1 ? `${lineCount} variants or claims` : "1 variant or claim"),
  ];
  const match = messageCount + lineCount > 1 ? "match" : "matches";
  return `${parts.filter(Boolean).join(" and ")} ${match}, the best one first.`;
}

function follow() {
  const fragment = location.hash.replace(/^#/, "");
  if (fragment !== "" && !fragment.startsWith("q=")) return;
  search(new URLSearchParams(fragment).get("q") ?? "");
}

function go(text) {
  const query = encodeURIComponent(text.trim().slice(-2000));
  const address = query ? `#q=${query}` : location.href.replace(/#.*$/, "");
  history.pushState(null, "", address);
  follow();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  go(box.value);
});
document.getElementById("reset").addEventListener("click", () => go(""));
window.addEventListener("hashchange", follow);
window.addEventListener("popstate", follow);
form.hidden = false;
follow();
