"use strict";

/*
 * The search of errors.html: finds messages, variants and claims for a pasted message, a whole log
 * or a few words. publish/search.py explains it and gives the same answers; its rules are in the
 * page. The address contains the search: errors.html#q=…
 */

const form = document.getElementById("search");
const box = document.getElementById("message");
const status = document.getElementById("status");
const found = document.getElementById("found");
const matches = document.getElementById("matches");
const others = document.getElementById("others");
const guesses = document.getElementById("guesses");
const everything = document.getElementById("everything");
const RULES = JSON.parse(form.dataset.rules);
const MOST = 20;
const COLOURS = new RegExp(RULES.colours.join("|"), "g");
const IGNORED = new RegExp(RULES.ignored.join("|"), "g");
const WORD = new RegExp(RULES.word, "g");
const PLURAL = new RegExp(RULES.plural);
const KIND = new RegExp(RULES.kind);
const FILLER = new Set(RULES.filler.split(" "));

const unique = (each) => [...new Set(each)];
const orElse = (some, all) => (some.length ? some : all);

/* The words that matter, in the singular: without fillers if others are left. */
function words(text) {
  const plain = text.replace(COLOURS, "").replace(IGNORED, " ").toLowerCase();
  const every = plain.match(WORD) ?? [];
  const singular = every.map((word) => word.replace(PLURAL, "$1"));
  return orElse(singular.filter((word) => !FILLER.has(word)), singular);
}

/* The pairs of neighbouring words, each once; one word is a pair if there are no more. */
function pairs(list) {
  const [first, ...others] = list;
  if (!others.length) return list.map((word) => `${word} `);
  return unique(others.map((word, n) => `${n ? others[n - 1] : first} ${word}`));
}

function entry(every) {
  const plain = orElse(every.filter((word) => !KIND.test(word)), every);
  const found = { words: unique(every), asked: unique(plain), pairs: pairs(plain) };
  return { ...found, ownWords: new Set(every), ownPairs: new Set(found.pairs) };
}

/* Texts in which messages are looked for. The first of them are errors, the others warnings. */
function searchIn(elements, errors) {
  const texts = elements.map((element) => entry(words(element.dataset.text)));
  const size = texts.length;
  const spread = new Map();
  for (const text of texts) {
    for (const each of unique([...text.words, ...text.pairs])) {
      spread.set(each, (spread.get(each) ?? 0) + 1);
    }
  }
  const after = new Map(); // the words that follow a word in a text
  for (const pair of spread.keys()) {
    const [word, next] = pair.split(" ");
    if (next) after.set(word, [...(after.get(word) ?? []), next]);
  }
  const weight = (each) => Math.log(1 + size / (spread.get(each) ?? 1)) / Math.log(1 + size);
  const total = (some) => some.reduce((sum, each) => sum + weight(each), 0);

  /* The weight of the heaviest run of pairs of the text that the query has too. */
  function run(text, asked) {
    let [best, now] = [0, 0];
    for (const each of text.pairs) {
      now = asked.ownPairs.has(each) ? now + weight(each) : 0;
      best = Math.max(best, now);
    }
    return best;
  }

  function score(text, number, asked) {
    if (!text.words.length || !asked.words.length) return 0;
    const known = total(asked.pairs.filter((each) => spread.has(each)));
    const overlap = total(text.pairs.filter((each) => asked.ownPairs.has(each)));
    const contained = overlap / total(text.pairs);
    const isThere = contained >= RULES.contained || run(text, asked) >= RULES.run;
    const shared = asked.asked.filter((each) => text.ownWords.has(each));
    const answered = total(shared) / total(asked.asked);
    const isAnswer = asked.asked.length <= RULES.few && answered >= RULES.answered;
    if (!isThere && !isAnswer) return 0;
    const there = isThere ? contained + (number < errors ? RULES.error_first : 0) : 0;
    const short = RULES.shorter / text.words.length;
    return (known ? overlap / known : 0) + there + (isAnswer ? answered + short : 0);
  }

  function near(text, asked) {
    const common = text.words.filter((each) => asked.asked.includes(each)).length;
    const isNear = common && common >= Math.min(2, asked.asked.length);
    return isNear ? common / Math.sqrt(text.words.length) : 0;
  }

  function ordered(scores) {
    const whole = scores.map((each) => Math.floor(each * 1e6 + 0.5)); // one order in both languages
    const places = [...whole.keys()].filter((n) => whole[n]);
    return places.sort((one, other) => whole[other] - whole[one]).map((n) => elements[n]);
  }

  /* A word that is cut at its end becomes the one that follows in a text. */
  function completed(every) {
    const list = [];
    for (const word of every) {
      const follow = spread.has(word) ? [] : (after.get(list.at(-1)) ?? []);
      list.push(follow.find((each) => each.startsWith(word)) ?? word);
    }
    return list;
  }

  return (query) => {
    const asked = entry(completed(words(query.slice(-RULES.longest))));
    const good = ordered(texts.map((text, number) => score(text, number, asked)));
    if (good.length) return { good, guessed: [] };
    const nearest = ordered(texts.map((text) => near(text, asked)));
    return { good, guessed: nearest.slice(0, RULES.guesses) };
  };
}

const messages = searchIn(
  [...everything.querySelectorAll("article")],
  everything.querySelectorAll("#errors article").length,
);
const lines = searchIn([...everything.querySelectorAll(".also [data-text]")], 0);

function search(text) {
  box.value = text;
  const isAsked = text.trim() !== "";
  const none = { good: [], guessed: [] };
  const { good, guessed } = isAsked ? messages(text) : none;
  const also = isAsked ? lines(text).good : [];
  matches.replaceChildren(...good.slice(0, MOST).map((each) => each.cloneNode(true)));
  guesses.replaceChildren(...guessed.map((each) => each.cloneNode(true)));
  others.replaceChildren(...also.slice(0, MOST).map((line) => line.cloneNode(true)));
  document.getElementById("found-messages").hidden = good.length === 0;
  document.getElementById("found-guesses").hidden = good.length > 0 || !isAsked;
  document.getElementById("found-others").hidden = also.length === 0;
  const guess = guessed.length ? ": the nearest ones, as guesses" : "";
  document.getElementById("perhaps").textContent = `No message matches${guess}`;
  found.hidden = !isAsked;
  everything.hidden = good.length + also.length > 0;
  status.textContent = isAsked ? told(good.length, also.length, guessed.length) : "";
}

function told(messageCount, lineCount, guessCount) {
  if (!messageCount && !lineCount) {
    const guessed = guessCount ? "The nearest ones are guesses." : "All messages are below.";
    return `No message of the matrix matches. ${guessed}`;
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
  const query = encodeURIComponent(text.trim().slice(-RULES.longest));
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
