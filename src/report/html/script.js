"use strict";
// The table of tests: a row for each test, with a cell for each target. Everything is written as text: nothing in the data is ever markup.
(() => {
  const PAGE = 100;
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const several = data.targets.length > 1;
  const compared = data.tests.some((test) => test.change);
  const order = { error: 0, failed: 1, flaky: 2, passed: 3, skipped: 4 };
  const changes = ["regressed", "lower", "same", "higher", "improved", "added"];
  const looks = { error: "odd", failed: "bad", flaky: "warn", passed: "good", skipped: "" };
  const marks = { error: "!", failed: "✗", flaky: "~", passed: "✓", skipped: "–" };

  const element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "class") made.className = value;
      else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  };
  const badge = (state) => element("span", { class: `badge ${looks[state]}` }, state);
  const time = (ms) => (ms === undefined ? "–" : ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`);
  const cost = (usd) => (usd === undefined ? "–" : usd === 0 || usd >= 0.01 ? `$${usd.toFixed(2)}` : `$${usd.toFixed(6)}`);
  const score = (value) => (value === undefined ? "–" : value.toFixed(2));
  const number = (value) => value.toLocaleString("en-US");

  // A test of one target has one row; the same test of several targets has one, too.
  const rows = [];
  const known = new Map();
  for (const test of data.tests) {
    let row = several ? known.get(test.id) : undefined;
    if (row === undefined) {
      row = { id: test.id, at: test.at, cells: [] };
      known.set(test.id, row);
      rows.push(row);
    }
    row.prompt ??= test.prompt;
    row.cells[several ? test.t : 0] = test;
  }
  const cellsOf = (row) => row.cells.filter(Boolean);
  const worst = (row) => Math.min(...cellsOf(row).map((test) => order[test.state]));
  const differs = (row) => cellsOf(row).length < data.targets.length || new Set(row.cells.map((test) => test.state)).size > 1;
  const byState = (test) => (test ? order[test.state] + (test.score ?? 2) / 10 : 9);

  const only = (row) => row.cells[0];
  const columns = several
    ? [
        { name: "test", class: "id", key: (row) => row.id },
        ...data.targets.map((name, place) => ({ name, class: "cell", key: (row) => byState(row.cells[place]), place })),
      ]
    : [
        { name: "test", class: "id", key: (row) => row.id },
        { name: "state", class: "", key: (row) => order[only(row).state] * 10 + Math.max(0, changes.indexOf(only(row).change)) },
        { name: "passed", class: "number minor", key: (row) => (only(row).n ? only(row).p / only(row).n : 2) },
        { name: "score", class: "number", key: (row) => only(row).score ?? 2 },
        { name: "change", class: "", key: (row) => changes.indexOf(only(row).change), show: compared },
        { name: "time", class: "number minor", key: (row) => -(only(row).ms ?? -1) },
        { name: "cost", class: "number minor", key: (row) => -(only(row).usd ?? -1) },
        { name: "reason", class: "why", key: (row) => only(row).why ?? "\uffff" },
      ].filter((column) => column.show !== false);

  const view = { words: [], state: "", change: "", differing: false, sort: undefined, down: false, most: PAGE, open: new Set() };
  let shown = [];

  // What is searched is put together when it is first needed.
  const haystack = (row) => {
    if (row.all === undefined) {
      const parts = [row.id, row.prompt ?? "", row.at ?? ""];
      const grader = (one) => {
        parts.push(one.name, one.says ?? "");
        for (const [, text, seen] of one.checks ?? []) parts.push(text, seen);
        (one.members ?? []).forEach(grader);
      };
      for (const test of cellsOf(row)) {
        parts.push(data.targets[test.t], test.state, test.why ?? "");
        for (const one of test.trials) {
          parts.push(one.answer ?? "", one.error ?? "");
          for (const [kind, text] of one.diff ?? []) if (kind !== 2) parts.push(text);
          (one.graders ?? []).forEach(grader);
        }
      }
      row.all = parts.join("\n").toLowerCase();
    }
    return row.all;
  };
  const has = (row, fits) => cellsOf(row).some(fits);
  const fits = (row) =>
    (!view.state || has(row, (test) => test.state === view.state)) &&
    (!view.change || has(row, (test) => test.change === view.change)) &&
    (!view.differing || differs(row)) &&
    view.words.every((word) => haystack(row).includes(word));

  const pre = (text) => element("pre", { tabindex: "0", dir: "auto" }, text);
  const graderList = (graders) =>
    element("ul", { class: "graders" }, ...graders.map((grader) => {
      const look = { pass: "good", fail: "bad", skip: "" }[grader.verdict];
      const word = { pass: "passed", fail: "failed", skip: "skipped" }[grader.verdict];
      const item = element("li", {}, element("span", { class: `badge ${look}` }, word), ` ${grader.name} `,
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
  const trials = (test) => {
    const box = element("div");
    if (several) box.append(element("h3", {}, element("bdi", {}, data.targets[test.t]), " ", badge(test.state)));
    test.trials.forEach((one, place) => {
      const which = test.trials.length > 1 ? `Trial ${place + 1}: ` : "";
      const figures = [`score ${score(one.score)}`, time(one.ms), cost(one.usd)].filter((figure) => figure !== "–");
      box.append(element(several ? "h4" : "h3", {}, `${which}${one.status}, ${figures.join(", ")}`));
      if (one.error !== undefined) box.append(pre(one.error));
      if (one.diff) {
        box.append(element("p", {}, "Changed since the baseline: ", element("ins", {}, "now"), " ", element("del", {}, "before")));
        box.append(difference(one.diff));
      } else if (one.answer !== undefined) box.append(pre(one.answer));
      if (one.graders) box.append(graderList(one.graders));
    });
    return box;
  };
  const details = (row) => {
    const cell = element("td", { colspan: String(columns.length) });
    const inside = element("div", { class: "inside" });
    cell.append(inside);
    if (row.at) inside.append(element("p", {}, element("code", {}, row.at)));
    if (row.prompt !== undefined) inside.append(element("h3", {}, "Prompt"), pre(row.prompt));
    inside.append(element("div", { class: "trials" }, ...cellsOf(row).map(trials)));
    return element("tr", { class: "detail" }, cell);
  };

  const matrixCell = (test) => {
    if (!test) return element("span", { class: "soft" }, "not run");
    const count = test.n > 1 ? ` ${test.p}/${test.n}` : "";
    const change = test.change === "regressed" || test.change === "improved" ? element("small", { class: `change-${test.change}` }, ` ${test.change}`) : "";
    return element("span", { class: `badge ${looks[test.state]}`, title: `${test.state}${test.why ? `: ${test.why}` : ""}` },
      element("span", { class: "mark", "aria-hidden": "true" }, marks[test.state]), element("span", { class: "word" }, test.state),
      element("span", { class: "count" }, count), element("span", { class: "value" }, test.n ? ` ${score(test.score)}` : ""), change);
  };
  const singleCells = (test) => ({
    state: () => badge(test.state),
    passed: () => (test.n ? `${test.p} of ${test.n}` : "–"),
    score: () => {
      const was = test.was !== undefined && score(test.was) !== score(test.score) ? ` (was ${score(test.was)})` : "";
      return element("span", {}, score(test.score), element("small", { class: "minor" }, was));
    },
    change: () => element("span", { class: `change-${test.change}` }, test.change ?? ""),
    time: () => time(test.ms),
    cost: () => cost(test.usd),
    reason: () => test.why ?? "",
  });
  const draw = (row, place) => {
    const opener = element("button", { type: "button", "aria-expanded": "false" }, element("bdi", {}, row.id));
    const content = (column) => {
      if (column.class === "id") return opener;
      return several ? matrixCell(row.cells[column.place]) : singleCells(only(row))[column.name]();
    };
    const line = element("tr", { "data-place": String(place) },
      ...columns.map((column) => element("td", { class: column.class }, content(column))));
    const open = () => {
      opener.setAttribute("aria-expanded", "true");
      line.after(details(row));
    };
    opener.addEventListener("click", () => {
      if (view.open.delete(row)) {
        opener.setAttribute("aria-expanded", "false");
        line.nextElementSibling.remove();
      } else {
        view.open.add(row);
        open();
      }
    });
    return { line, open: view.open.has(row) ? open : undefined };
  };

  const body = byId("rows");
  const drawAll = () => {
    const drawn = shown.slice(0, view.most).map(draw);
    body.replaceChildren(...drawn.map((one) => one.line));
    for (const one of drawn) one.open?.();
    byId("more").hidden = shown.length <= view.most;
    const left = data.left_out ? ` (${number(data.left_out)} more have no room on this page)` : "";
    byId("count").textContent = `${number(shown.length)} of ${number(rows.length)} tests${left}`;
  };
  const update = () => {
    const key = view.sort?.key ?? (several ? worst : columns[1].key);
    const keys = new Map(rows.map((row, place) => [row, [key(row), place]]));
    shown = rows.filter(fits).sort((a, b) => {
      const [left, right] = [keys.get(a), keys.get(b)];
      const by = left[0] < right[0] ? -1 : left[0] > right[0] ? 1 : 0;
      return (view.down ? -by : by) || left[1] - right[1];
    });
    view.most = PAGE;
    drawAll();
  };

  const head = element("tr");
  for (const column of columns) {
    const button = element("button", { type: "button" }, element("bdi", {}, column.name));
    const cell = element("th", { scope: "col", class: column.class.replace("id", "") }, button);
    button.addEventListener("click", () => {
      view.down = view.sort === column && !view.down;
      view.sort = column;
      for (const other of head.cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", view.down ? "descending" : "ascending");
      update();
    });
    head.append(cell);
  }
  byId("table").tHead.replaceChildren(head);

  const states = Object.keys(order).filter((state) => data.tests.some((test) => test.state === state));
  for (const state of ["", ...states]) {
    const count = rows.filter((row) => !state || has(row, (test) => test.state === state)).length;
    const button = element("button", { type: "button", "aria-pressed": String(state === "") }, `${state || "all"} ${number(count)}`);
    button.addEventListener("click", () => {
      view.state = state;
      for (const other of byId("states").children) other.setAttribute("aria-pressed", String(other === button));
      update();
    });
    byId("states").append(button);
  }
  if (compared) {
    const select = byId("change");
    select.append(element("option", { value: "" }, "all changes"), ...changes.map((change) => element("option", { value: change }, change)));
    select.addEventListener("change", () => {
      view.change = select.value;
      update();
    });
    byId("change-label").hidden = false;
  }
  if (several) {
    byId("differing").addEventListener("change", (event) => {
      view.differing = event.target.checked;
      update();
    });
    byId("differing-label").hidden = false;
  }

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
    drawAll();
    body.querySelector(`tr[data-place="${first}"] button`)?.focus();
  });
  const controls = document.querySelector(".controls");
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.hidden = false;
  update();
})();
