"use strict";
// The table of tests. Everything is written as text: nothing in the data is ever markup.
(() => {
  const PAGE = 200;
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const several = data.targets.length > 1;
  const compared = data.tests.some((test) => test.change);
  const order = { error: 0, failed: 1, flaky: 2, passed: 3, skipped: 4 };
  const changes = ["regressed", "lower", "same", "higher", "improved", "added"];
  const looks = { error: "odd", failed: "bad", flaky: "warn", passed: "good", skipped: "" };

  const element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "class") made.className = value;
      else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  };
  const badge = (state, label) => element("span", { class: `badge ${looks[state]}` }, label);
  const time = (ms) => (ms === undefined ? "–" : ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`);
  const cost = (usd) => (usd === undefined ? "–" : usd === 0 || usd >= 0.01 ? `$${usd.toFixed(2)}` : `$${usd.toFixed(6)}`);
  const score = (value) => (value === undefined ? "–" : value.toFixed(2));
  const number = (value) => value.toLocaleString("en-US");

  const columns = [
    { name: "test", class: "id", key: (test) => test.id },
    { name: "target", class: "minor", key: (test) => data.targets[test.t], show: several },
    { name: "state", class: "", key: (test) => order[test.state] * 10 + Math.max(0, changes.indexOf(test.change)) },
    { name: "passed", class: "number minor", key: (test) => (test.n ? test.p / test.n : 2) },
    { name: "score", class: "number", key: (test) => test.score ?? 2 },
    { name: "change", class: "", key: (test) => changes.indexOf(test.change), show: compared },
    { name: "time", class: "number minor", key: (test) => -(test.ms ?? -1) },
    { name: "cost", class: "number minor", key: (test) => -(test.usd ?? -1) },
  ].filter((column) => column.show !== false);

  const view = { words: [], state: "", target: "", change: "", sort: "state", down: false, most: PAGE, open: new Set() };
  let shown = [];

  // What is searched is put together when it is first needed.
  const haystack = (test) => {
    if (test.all === undefined) {
      const parts = [test.id, data.targets[test.t], test.label, test.prompt ?? "", test.at ?? ""];
      const grader = (one) => {
        parts.push(one.name, one.says ?? "");
        for (const [, text, seen] of one.checks ?? []) parts.push(text, seen);
        (one.members ?? []).forEach(grader);
      };
      for (const one of test.tries) {
        parts.push(one.answer ?? "", one.error ?? "");
        for (const [kind, text] of one.diff ?? []) if (kind !== 2) parts.push(text);
        (one.graders ?? []).forEach(grader);
      }
      test.all = parts.join("\n").toLowerCase();
    }
    return test.all;
  };
  const fits = (test) =>
    (!view.state || test.state === view.state) &&
    (view.target === "" || test.t === Number(view.target)) &&
    (!view.change || test.change === view.change) &&
    view.words.every((word) => haystack(test).includes(word));

  const pre = (text) => element("pre", { tabindex: "0", dir: "auto" }, text);
  const graderList = (graders) =>
    element("ul", { class: "graders" }, ...graders.map((grader) => {
      const look = { pass: "good", fail: "bad", skip: "" }[grader.verdict];
      const item = element("li", {}, element("span", { class: `badge ${look}` }, grader.verdict), ` ${grader.name} `,
        element("small", {}, `(${grader.kind}, ${score(grader.score)})`));
      for (const [passed, text, seen] of grader.checks ?? []) {
        item.append(element("p", { dir: "auto" }, `${passed ? "✓" : "✗"} ${text}${seen ? ` (${seen})` : ""}`));
      }
      if (grader.says) item.append(element("p", { dir: "auto" }, grader.says));
      if (grader.members) item.append(graderList(grader.members));
      return item;
    }));
  const difference = (pieces) => {
    const box = pre("");
    for (const [kind, text] of pieces) {
      box.append(kind === 0 ? text : element(kind === 1 ? "ins" : "del", {}, text));
    }
    return box;
  };
  const details = (test) => {
    const cell = element("td", { colspan: String(columns.length) });
    const part = (title, ...children) => cell.append(element("h3", {}, title), ...children);
    if (test.at) cell.append(element("p", {}, element("code", {}, test.at)));
    if (test.prompt !== undefined) part("Prompt", pre(test.prompt));
    test.tries.forEach((one, place) => {
      const which = test.tries.length > 1 ? `Try ${place + 1}: ` : "";
      const figures = [`score ${score(one.score)}`, time(one.ms), cost(one.usd)].filter((figure) => figure !== "–");
      part(`${which}${one.status}, ${figures.join(", ")}`);
      if (one.error !== undefined) cell.append(pre(one.error));
      if (one.diff) {
        cell.append(element("p", {}, "Changed since the baseline: ", element("ins", {}, "now"), " ", element("del", {}, "before")));
        cell.append(difference(one.diff));
      } else if (one.answer !== undefined) cell.append(pre(one.answer));
      if (one.graders) cell.append(graderList(one.graders));
    });
    return element("tr", { class: "detail" }, cell);
  };

  const row = (test, place) => {
    const opener = element("button", { type: "button", "aria-expanded": "false" }, element("bdi", {}, test.id));
    const cells = {
      test: () => opener,
      target: () => data.targets[test.t],
      state: () => badge(test.state, test.label),
      passed: () => (test.n ? `${test.p} of ${test.n}` : "–"),
      score: () => {
        const was = test.was !== undefined && score(test.was) !== score(test.score) ? ` (was ${score(test.was)})` : "";
        return element("span", {}, score(test.score), element("small", { class: "minor" }, was));
      },
      change: () => element("span", { class: `change-${test.change}` }, test.change ?? ""),
      time: () => time(test.ms),
      cost: () => cost(test.usd),
    };
    const line = element("tr", { "data-place": String(place) },
      ...columns.map((column) => element("td", { class: column.class }, cells[column.name]())));
    const open = () => {
      opener.setAttribute("aria-expanded", "true");
      line.after(details(test));
    };
    opener.addEventListener("click", () => {
      if (view.open.delete(test)) {
        opener.setAttribute("aria-expanded", "false");
        line.nextElementSibling.remove();
      } else {
        view.open.add(test);
        open();
      }
    });
    return { line, open: view.open.has(test) ? open : undefined };
  };

  const body = byId("table").tBodies[0];
  const draw = () => {
    const visible = shown.slice(0, view.most);
    const rows = visible.map(row);
    body.replaceChildren(...rows.map((one) => one.line));
    for (const one of rows) one.open?.();
    byId("more").hidden = shown.length <= view.most;
    const left = data.left_out ? ` (${number(data.left_out)} more tests have no room on this page)` : "";
    byId("count").textContent = `${number(shown.length)} of ${number(data.tests.length)} tests${left}`;
  };
  const update = () => {
    const column = columns.find((one) => one.name === view.sort);
    const keys = new Map(data.tests.map((test, place) => [test, [column.key(test), place]]));
    shown = data.tests.filter(fits).sort((a, b) => {
      const [left, right] = [keys.get(a), keys.get(b)];
      const by = left[0] < right[0] ? -1 : left[0] > right[0] ? 1 : 0;
      return (view.down ? -by : by) || left[1] - right[1];
    });
    view.most = PAGE;
    draw();
  };

  const head = element("tr");
  for (const column of columns) {
    const button = element("button", { type: "button" }, column.name);
    const cell = element("th", { scope: "col", class: column.class.replace("id", "") }, button);
    button.addEventListener("click", () => {
      view.down = view.sort === column.name && !view.down;
      view.sort = column.name;
      for (const other of head.cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", view.down ? "descending" : "ascending");
      update();
    });
    head.append(cell);
  }
  byId("table").tHead.append(head);

  const states = Object.keys(order).filter((state) => data.tests.some((test) => test.state === state));
  for (const state of ["", ...states]) {
    const count = data.tests.filter((test) => !state || test.state === state).length;
    const button = element("button", { type: "button", "aria-pressed": String(state === "") }, `${state || "all"} ${number(count)}`);
    button.addEventListener("click", () => {
      view.state = state;
      for (const other of byId("states").children) other.setAttribute("aria-pressed", String(other === button));
      update();
    });
    byId("states").append(button);
  }
  const choices = (id, label, all, entries, pick) => {
    const select = byId(id);
    select.append(element("option", { value: "" }, all), ...entries.map(([value, text]) => element("option", { value }, text)));
    select.addEventListener("change", () => {
      pick(select.value);
      update();
    });
    byId(label).hidden = false;
  };
  if (several) choices("target", "target-label", "all targets", data.targets.map((name, place) => [String(place), name]), (value) => { view.target = value; });
  if (compared) choices("change", "change-label", "all changes", changes.map((change) => [change, change]), (value) => { view.change = value; });

  const search = byId("search");
  search.addEventListener("input", () => {
    view.words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    update();
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      search.focus();
    }
  });
  byId("more").addEventListener("click", () => {
    const first = view.most;
    view.most += PAGE;
    draw();
    body.querySelector(`tr[data-place="${first}"] button`)?.focus();
  });
  const controls = document.querySelector(".controls");
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.hidden = false;
  byId("table").hidden = false;
  update();
})();
