// Shows the numbers of the overview as they change. Without this script the page shows those of the
// moment when it was loaded.
"use strict";

(function () {
  const diagram = document.querySelector("[data-events]");
  const status = document.querySelector("[data-live]");
  if (!diagram || !status || !window.EventSource) {
    return;
  }

  const silence = 10000; // the server sends about once a second
  const pause = 5000; // before the next try
  let source = null;
  let watchdog = 0;
  let retry = 0;

  function say(text, live) {
    status.hidden = false;
    if (status.textContent !== text) { // or a screen reader would read it each second
      status.textContent = text;
    }
    diagram.classList.toggle("stale", !live);
  }

  function close() {
    clearTimeout(watchdog);
    clearTimeout(retry);
    if (source) {
      source.close();
      source = null;
    }
  }

  function cut() {
    close();
    if (!document.hidden) {
      say("Not live: no numbers arrive. These are old.", false);
      retry = setTimeout(open, pause);
    }
  }

  function open() {
    close();
    source = new EventSource(diagram.dataset.events);
    source.addEventListener("numbers", function (event) {
      arm();
      const numbers = JSON.parse(event.data);
      if (numbers) {
        show(numbers);
      }
      say("Live", Boolean(numbers) && numbers.nodes.length > 0);
    });
    source.addEventListener("error", cut);
    arm();
  }

  function arm() {
    clearTimeout(watchdog);
    watchdog = setTimeout(cut, silence);
  }

  function setText(element, text) {
    if (element && element.textContent !== text) {
      element.textContent = text;
    }
  }

  function find(attribute, value) {
    return Array.from(diagram.querySelectorAll("[" + attribute + "]"))
      .find(function (element) { return element.getAttribute(attribute) === value; });
  }

  function show(numbers) {
    const error = diagram.querySelector("[data-error]");
    setText(error, numbers.error);
    error.hidden = !numbers.error;
    showGates(diagram.querySelector("[data-gates]"), numbers.gates);
    showNodes(numbers.nodes);
  }

  function showGates(list, gates) {
    if (Array.from(list.children).map(function (item) { return item.textContent; }).join("\n") === gates.join("\n")) {
      return;
    }
    list.replaceChildren(...gates.map(function (gate) {
      const item = document.createElement("li");
      item.textContent = gate;
      return item;
    }));
    list.hidden = gates.length === 0;
  }

  function showNodes(nodes) {
    const shown = diagram.querySelectorAll("[data-node]").length;
    if (nodes.length > 0 && shown !== nodes.length) {
      location.reload(); // the service has other nodes than when the page was loaded
      return;
    }
    nodes.forEach(function (node) {
      const element = find("data-node", node.name);
      if (!element) {
        return;
      }
      setText(element.querySelector("[data-count]"), node.count);
      setText(element.querySelector("[data-rate]"), node.rate);
      setText(element.querySelector("[data-oldest]"), node.oldest);
      setText(element.querySelector("[data-note]"), node.note);
      ["ok", "warn", "bad"].forEach(function (level) {
        element.classList.toggle(level, node.level === level);
      });
    });
  }

  document.addEventListener("visibilitychange", function () {
    if (document.hidden) {
      close();
    } else {
      open();
    }
  });
  window.addEventListener("pagehide", close);
  if (!document.hidden) {
    open();
  }
})();
