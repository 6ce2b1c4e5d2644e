"use strict";

// The page has no state of its own: it shows the view that the simulator renders, and sends it the
// reader's actions.

const find = (selector) => document.querySelector(selector);

const element = (name, text, className) => {
  const e = document.createElement(name);
  e.textContent = text;
  e.className = className ?? "";
  return e;
};

const button = (label, action, className) => {
  const b = element("button", label, className);
  b.type = "button";
  b.dataset.action = action;
  b.onclick = () => simulate(action);
  return b;
};

const buttons = (view, place) => view.actions.filter((a) => a.place === place).map((a) => {
  const b = button(a.label, a.id, a.fault ? "fault" : "");
  b.classList.toggle("next", a.id === view.lesson.action);
  return b;
});

const rows = (list) => (list ?? []).map((row) => {
  const li = element("li", "", row.bad ? "bad" : "");
  li.append(element("b", row.name), row.text ? " " + row.text : "");
  return li;
});

const showLesson = ({ lessons, lesson }) => {
  const choose = find("#lesson");
  if (choose.options.length === 0) {
    choose.append(new Option("Free play", 0), ...lessons.map((title, i) => new Option(`${i + 1}. ${title}`, i + 1)));
    choose.onchange = () => simulate(`lesson/${choose.value}`);
  }
  choose.value = lesson.number;
  const shown = [button("start again", "reset")];
  if (lesson.next) shown.unshift(button(lesson.next, "next", "next"));
  if (lesson.end) shown.unshift(element("p", lesson.end, "good"));
  if (lesson.text) shown.unshift(element("p", lesson.text));
  find("#lesson-steps").replaceChildren(...shown);
};

const showRelays = (view) => {
  find("#relay-list").replaceChildren(...view.relays.flatMap((relay) => [
    element("h3", relay.name), element("p", relay.text, relay.bad ? "bad" : ""), ...buttons(view, relay.name),
  ]));
};

// A screen reader reads the promises aloud when they change, so they are replaced only then.
const showPromises = (promises) => {
  const list = find("#promise-list");
  const shown = promises.map((p) => element("p", `${p.bad ? "✗" : "✓"} ${p.name}: ${p.text}`, p.bad ? "bad" : "good"));
  if (list.textContent !== shown.map((p) => p.textContent).join("")) list.replaceChildren(...shown);
};

const showLog = (view) => {
  const list = find("[data-log]");
  list.start = view.did;
  list.replaceChildren(...(view.log ?? []).toReversed().map((line) => element("li", line)));
};

// keepFocus runs show, which replaces the buttons, and focuses the button with the same action. If
// there is none, it focuses the section: Enter must not press another button, such as SIGKILL.
const keepFocus = (show) => {
  const { dataset } = document.activeElement;
  const section = document.activeElement.closest("section");
  show();
  if (dataset.action) (find(`button[data-action="${dataset.action}"]`) ?? section).focus();
};

// render is called by the simulator.
globalThis.render = (viewJSON) => keepFocus(() => {
  const view = JSON.parse(viewJSON);
  find("#status").hidden = true;
  find("#system").hidden = false;
  find("#clock").textContent = view.clock;
  for (const list of document.querySelectorAll("[data-rows]")) list.replaceChildren(...rows(view[list.dataset.rows]));
  for (const place of document.querySelectorAll("[data-actions]")) {
    place.replaceChildren(...buttons(view, place.dataset.actions));
  }
  showLog(view);
  showPromises(view.promises);
  showRelays(view);
  showLesson(view);
});

const say = (text) => {
  find("#status").textContent = text;
  find("#status").hidden = false;
};

const go = new Go();
WebAssembly.instantiateStreaming(fetch("simulator.wasm"), go.importObject)
  .then((program) => go.run(program.instance))
  .then(() => say("The simulator has stopped. Load the page again."))
  .catch((error) => say(`The simulator did not start: ${error}`));
