// Keeps an open screen up to date. Everything works without this file; it writes text, never markup.
"use strict";
(() => {
  const OFTEN = 800, AT_TIMES = 2500, SELDOM = 10000;
  const said = document.getElementById("said");
  const say = (text) => { said.textContent = text; };

  // Text between backticks is code, as on the page that the service drew.
  const written = new WeakMap();
  const put = (node, text) => {
    node.hidden = text === "";
    const known = written.get(node) ?? node.textContent;
    if (known === text || !written.has(node) && known === text.replaceAll("`", "")) return;
    written.set(node, text);
    if (node.tagName === "UL") {
      node.replaceChildren(...text.split("\n").map((line) => {
        const item = document.createElement("li");
        put(item, line);
        return item;
      }));
      return;
    }
    node.replaceChildren(...text.split("`").map((part, place) => {
      if (place % 2 === 0) return part;
      const code = document.createElement("code");
      code.textContent = part;
      return code;
    }));
  };
  const fill = (place, row) => {
    for (const node of place.querySelectorAll("[data-field]")) {
      const name = node.dataset.field;
      const text = row.texts.find(([known]) => known === name);
      const time = row.times.find(([known]) => known === name);
      if (text) put(node, text[1]);
      if (time && time[1]) {
        put(node, time[1][0]);
        node.dateTime = time[1][1];
      }
      if (name === "name") {
        node.textContent = row.name;
        if (row.href) node.setAttribute("href", row.href);
      }
      if (name === "word") {
        if (node.textContent !== row.word) node.textContent = row.word;
        node.dataset.look = row.look;
      }
      if (name === "going") {
        node.hidden = !row.busy;
        const bar = node.querySelector("progress");
        if (row.percent === null) bar.removeAttribute("value");
        else bar.value = row.percent;
      }
      if (name === "problem") node.hidden = !row.texts.some(([known, words]) => known === "reason" && words);
    }
    for (const node of place.querySelectorAll("[data-shown-with]")) {
      node.hidden = !row.texts.some(([known, words]) => known === node.dataset.shownWith && words);
    }
    for (const button of place.querySelectorAll("form[data-press] button")) {
      if (row.busy) button.setAttribute("aria-disabled", "true");
      else button.removeAttribute("aria-disabled");
    }
  };
  const grow = (list, row, before) => {
    const place = document.getElementById("new-row").content.firstElementChild.cloneNode(true);
    place.dataset.row = row.id;
    list.insertBefore(place, before);
    return place;
  };

  const lost = document.createElement("p");
  lost.id = "lost";
  lost.hidden = true;
  lost.setAttribute("role", "status");
  document.body.append(lost);

  const watch = (list) => {
    const words = new Map();
    // A list that grows by itself is asked more often than one that waits for a press.
    const quiet = "grows" in list.dataset ? AT_TIMES : SELDOM;
    let timer, wait = OFTEN, isAsking = false, again = false;
    const show = (rows) => {
      const places = new Map(Array.from(list.querySelectorAll("[data-row]"), (place) => [place.dataset.row, place]));
      let before = list.firstElementChild;
      for (const row of rows) {
        let place = places.get(row.id);
        if (!place && "grows" in list.dataset) place = grow(list, row, before);
        if (!place) continue;
        if (place === before) before = before.nextElementSibling;
        // Other models or cases than those on the page.
        if ("shape" in list.dataset && list.dataset.shape !== row.shape) { location.reload(); return; }
        fill(place, row);
        const known = words.get(row.id);
        // A change of state is worth a word; a per cent more is not.
        if (known !== undefined && known !== row.word || known === undefined && words.size && "grows" in list.dataset) {
          const reason = row.busy ? undefined : row.texts.find(([name]) => name === "reason");
          say(`${row.name}: ${row.word}${reason && reason[1] ? `. ${reason[1]}` : ""}`);
          // The page of one job has more to show once it is over.
          if (known !== undefined && !row.busy && list.classList.contains("single")) location.reload();
        }
        words.set(row.id, row.word);
      }
    };
    const ask = async () => {
      if (isAsking) { again = true; return; }
      isAsking = true;
      clearTimeout(timer);
      try {
        const answer = await fetch(list.dataset.live, { headers: { accept: "application/json" }, cache: "no-store" });
        if (answer.status === 401) {
          put(lost, "You are signed out. Reload to sign in again.");
          return;
        }
        if (!answer.ok) throw new Error(String(answer.status));
        const { rows } = await answer.json();
        show(rows);
        put(lost, "");
        const isBusy = rows.some((row) => row.busy);
        wait = isBusy || rows.some((row) => row.word === "Checking") ? OFTEN : quiet;
      } catch {
        put(lost, "The service does not answer. Trying again.");
        wait = Math.min(wait * 2, SELDOM);
      } finally {
        isAsking = false;
      }
      if (again) { again = false; wait = OFTEN; }
      if (!document.hidden) timer = setTimeout(ask, wait);
    };
    document.addEventListener("visibilitychange", () => { if (!document.hidden) ask(); });
    list.addEventListener("submit", async (event) => {
      const form = event.target;
      if (!("press" in form.dataset)) return;
      event.preventDefault();
      const button = form.querySelector("button");
      if (button.getAttribute("aria-disabled") === "true") return;
      button.setAttribute("aria-disabled", "true");
      const body = new URLSearchParams(new FormData(form));
      const answer = await fetch(form.action, { method: "POST", body, redirect: "manual" }).catch(() => undefined);
      if (!answer || answer.type !== "opaqueredirect") {
        button.removeAttribute("aria-disabled");
        // The page says best why it was refused.
        form.submit();
        return;
      }
      ask();
    });
    ask();
  };
  for (const list of document.querySelectorAll("[data-live]")) watch(list);
})();
