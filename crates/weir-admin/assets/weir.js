// Keeps the page current. The server draws it; what changed is put in place, so that focus, selection and open parts stay.
"use strict";

document.documentElement.classList.add("js");

const pulse = document.getElementById("pulse");
const filter = document.getElementById("filter");
const said = document.getElementById("said");
let source = null;
let paused = false;
let latest = Date.now();

function say(sentence, trouble) {
  const line = document.createElement("p");
  line.textContent = sentence;
  if (trouble) line.className = "bad";
  said.append(line);
  while (said.children.length > 4) said.firstChild.remove();
  setTimeout(() => line.remove(), trouble ? 15_000 : 8_000);
}

// ---- the page's inside ----

const keyOf = node => node.nodeType === 1 ? node.id || node.dataset.key : undefined;

function morph(own, next) {
  if (own.nodeType !== 1) {
    if (own.nodeValue !== next.nodeValue) own.nodeValue = next.nodeValue;
    return;
  }
  if (own.dataset.keep !== undefined) return;
  for (const { name } of [...own.attributes]) {
    const stays = name === "open" && own.dataset.keepOpen !== undefined;
    if (!next.hasAttribute(name) && !stays) own.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (own.getAttribute(name) !== value) own.setAttribute(name, value);
  }
  morphChildren(own, next);
}

function morphChildren(own, next) {
  const wanted = new Set([...next.childNodes].map(keyOf).filter(Boolean));
  const there = new Map([...own.children].filter(keyOf).map(child => [keyOf(child), child]));
  let cursor = own.firstChild;
  const skip = () => { const gone = cursor; cursor = cursor.nextSibling; gone.remove(); };
  for (const child of [...next.childNodes]) {
    const key = keyOf(child);
    const match = key ? there.get(key) : cursor && !keyOf(cursor) && cursor.nodeName === child.nodeName ? cursor : null;
    if (!match || match.nodeName !== child.nodeName) {
      own.insertBefore(document.importNode(child, true), cursor);
      continue;
    }
    // What is not wanted any more goes first, so that as little as possible is moved.
    while (cursor && cursor !== match && !wanted.has(keyOf(cursor))) skip();
    if (cursor === match) cursor = cursor.nextSibling;
    else own.insertBefore(match, cursor);
    morph(match, child);
  }
  while (cursor) skip();
}

function show(html) {
  const page = new DOMParser().parseFromString(html, "text/html");
  const next = page.querySelector("main");
  const focused = document.activeElement;
  morph(document.getElementById("main"), next);
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
  document.title = next.dataset.title;
  sift();
}

// ---- only what is looked for ----

function sift() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const trouble = document.documentElement.classList.contains("only-trouble");
  for (const section of document.querySelectorAll("section.pool")) {
    const pool = section.dataset.find.toLowerCase();
    let left = 0;
    for (const line of section.querySelectorAll("tbody tr.line[data-find]")) {
      const text = `${pool} ${line.dataset.find.toLowerCase()}`;
      const seen = words.every(word => text.includes(word)) && (!trouble || line.dataset.out !== undefined);
      line.classList.toggle("hidden", !seen);
      const why = line.nextElementSibling;
      if (why?.classList.contains("why")) why.classList.toggle("hidden", !seen);
      left += seen;
    }
    section.classList.toggle("hidden", left === 0 && (words.length > 0 || trouble));
  }
}

filter.addEventListener("input", sift);

document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === filter) {
    if (event.key === "Escape") { filter.value = ""; filter.blur(); sift(); }
    return;
  }
  if (event.key === "/") { event.preventDefault(); filter.focus(); }
  if (event.key === "t") { document.documentElement.classList.toggle("only-trouble"); sift(); }
  if (event.key === "p") { paused = !paused; beat(); }
});

// ---- orders ----

document.addEventListener("submit", async event => {
  const form = event.target;
  if (!form.dataset.api) return;
  event.preventDefault();
  const name = form.dataset.name;
  const field = form.querySelector("input");
  const order = event.submitter?.value;
  const [change, words] = field
    ? [{ [field.name]: Number(field.value) }, `at most ${field.value} idle connections to each server`]
    : [{ order }, order];
  const question = `${name} is the last available server of its pool. Set it to ${order} anyway?`;
  if (form.dataset.last !== undefined && order !== "ready" && !confirm(question)) return;
  const buttons = [...form.querySelectorAll("button")];
  buttons.forEach(button => { button.disabled = true; });
  try {
    // Of a page whose address has a password in it nothing relative can be asked.
    const answer = await fetch(new URL(form.dataset.api, location.origin), {
      method: "PATCH", headers: { "Content-Type": "application/json" }, body: JSON.stringify(change),
    });
    const told = await answer.json();
    if (answer.ok) {
      say(`${name}: ${words}. ${told.lasts.note}.`);
      // From now on the field shows what the server draws, until it is edited again.
      field?.setAttribute("value", field.value);
      form.reset();
    } else {
      say(`${name}: not done: ${told.error.message}.`, true);
    }
  } catch (error) {
    say(`${name}: no answer (${error.message}): it is unknown whether the change was made.`, true);
  }
  // The next second draws them as they are.
  buttons.forEach(button => { button.disabled = button.getAttribute("aria-pressed") === "true"; });
});

// ---- once a second ----

function listen() {
  source?.close();
  source = new EventSource(document.body.dataset.live);
  const hear = (name, then) => source.addEventListener(name, event => {
    latest = Date.now();
    then(JSON.parse(event.data));
    beat();
  });
  hear("history", ({ points }) => Charts.begin(points));
  hear("point", point => { Charts.take(point); if (!paused && !document.hidden) Charts.draw(); });
  hear("main", html => { if (!paused && !document.hidden) show(html); });
}

function beat() {
  const silent = Math.round((Date.now() - latest) / 1000);
  const lost = silent > 4;
  pulse.className = lost ? "script lost" : paused ? "script paused" : "script";
  const text = lost ? `no answer for ${silent} s` : paused ? "paused" : "live";
  if (pulse.textContent !== text) pulse.textContent = text;
  // A browser does not come back by itself after a refusal.
  if (lost && source?.readyState === EventSource.CLOSED && silent % 5 === 0) listen();
}

document.addEventListener("toggle", () => Charts.draw(), true);
window.addEventListener("resize", () => Charts.draw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => Charts.draw());
document.addEventListener("visibilitychange", () => { if (!document.hidden) Charts.draw(); });
setInterval(beat, 1000);
listen();
sift();
