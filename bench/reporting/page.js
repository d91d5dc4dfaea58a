"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const root = document.documentElement;
  const theme = document.querySelector(".theme");
  const remembered = (() => { try { return localStorage.getItem("voxgate-report-theme"); } catch { return null; } })();
  const setTheme = (name) => {
    if (name === "auto") root.removeAttribute("data-theme"); else root.setAttribute("data-theme", name);
    try { localStorage.setItem("voxgate-report-theme", name); } catch { /* a page from a file may not remember */ }
  };
  theme.hidden = false;
  for (const button of theme.querySelectorAll("input")) {
    if (button.value === remembered) { button.checked = true; setTheme(remembered); }
    button.addEventListener("change", () => setTheme(button.value));
  }
  addEventListener("beforeprint", () => { for (const each of document.querySelectorAll("details")) each.open = true; });

  const data = JSON.parse(byId("data").textContent);
  const PAGE = 50;
  const RESULTS = {
    right: (o) => o[3] === 1 && o[4] === 0, wrong: (o) => o[3] === 0 || o[4] !== 0,
    ...Object.fromEntries(data.flaws.map((name, place) => [name, (o) => (o[4] & (1 << place)) !== 0])),
  };
  const plainName = (name) => name.replaceAll("_", " ");
  const condition = (item) => item.cell || item.variant;
  const searchable = data.items.map((item) =>
    [item.id, item.family, item.variant, item.cell, item.target, ...item.said.map((part) => part[2])].join("\n").toLowerCase());
  const outputs = data.texts.map((text) => text.toLowerCase());
  const unique = (values) => [...new Set(values)].filter((value) => value !== "");
  const fields = {
    system: [data.systems.map((name, place) => [String(place), name]), (o, value) => o[1] === Number(value)],
    array: [unique(data.items.map((item) => item.array)).sort().map((v) => [v, v]), (o, value) => data.items[o[0]].array === value],
    family: [unique(data.items.map((item) => item.family)).map((v) => [v, v]), (o, value) => data.items[o[0]].family === value],
    cell: [unique(data.items.map(condition)).sort().map((v) => [v, v]), (o, value) => condition(data.items[o[0]]) === value],
    held: [
      [["nothing", "nothing"], ...unique(data.items.flatMap((item) => item.held)).sort().map((v) => ["+" + v, v])],
      (o, value) => value === "nothing" ? !data.items[o[0]].held.length : data.items[o[0]].held.includes(value.slice(1)),
    ],
    result: [Object.keys(RESULTS).map((name) => [name, plainName(name)]), (o, value) => RESULTS[value](o)],
  };
  const form = byId("filters");
  for (const [name, [choices]] of Object.entries(fields)) {
    const select = byId("f-" + name);
    select.append(new Option("all", ""), ...choices.map(([value, label]) => new Option(label, value)));
    if (choices.length < 2) select.closest("label").hidden = true;
  }
  form.hidden = false;
  document.querySelector(".pager").hidden = false;

  const make = (tag, text, name) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    return made;
  };
  const rowOf = (outcome) => {
    const [place, system, output, right, flaws, why, scores] = outcome;
    const item = data.items[place];
    const row = make("tr");
    const head = make("th", item.id);
    head.scope = "row";
    head.append(make("span", [...new Set([item.family, item.cell, item.variant, item.array, item.set])].filter(Boolean).join(" · "), "sub"));
    if (item.held.length) head.append(make("span", "new: " + item.held.join(", "), "sub"));
    const said = make("td");
    for (const [who, role, text] of item.said) {
      said.append(make("span", who + ", " + role, "sub"), make("span", text));
    }
    const wanted = make("td");
    wanted.append(make("code", item.target));
    const did = make("td");
    did.append(make("code", data.texts[output]));
    did.append(make("span", right && !flaws ? "right" : "wrong", right && !flaws ? "right" : "wrong"));
    const named = data.flaws.filter((_, bit) => flaws & (1 << bit)).map(plainName).join(", ");
    if (named) did.append(make("span", named, "sub"));
    const reason = make("td", data.texts[why]);
    const known = ["wearer", "near", "addressed"].map((name, at) => [name, scores[at]]).filter(([, p]) => p !== null && p !== undefined);
    if (known.length) reason.append(make("span", known.map(([name, p]) => name + " " + p.toFixed(2)).join(" · "), "sub"));
    row.append(head, said, wanted, make("td", data.systems[system]), did, reason);
    if (document.querySelector("#list th.sound")) {
      const cell = make("td", undefined, "sound");
      if (item.sound) {
        const player = make("audio");
        player.controls = true;
        player.preload = "none";
        player.src = item.sound.src;
        player.setAttribute("aria-label", "Sound of item " + item.id);
        cell.append(player);
        if (item.sound.note) cell.append(make("span", item.sound.note, "sub"));
      } else cell.append(make("span", item.silent ? "words alone" : "", "sub"));
      row.append(cell);
    }
    return row;
  };

  let chosen = [];
  let start = 0;
  const show = () => {
    byId("list").tBodies[0].replaceChildren(...chosen.slice(start, start + PAGE).map(rowOf));
    const end = Math.min(start + PAGE, chosen.length);
    byId("found").textContent = chosen.length
      ? `${start + 1}–${end} of ${chosen.length} outcomes (${data.outcomes.length} in all)` : `none of ${data.outcomes.length} outcomes`;
    byId("before").disabled = start === 0;
    byId("after").disabled = end >= chosen.length;
  };
  const filter = () => {
    const active = Object.entries(fields).map(([name, [, test]]) => [byId("f-" + name).value, test]).filter(([value]) => value !== "");
    const words = byId("f-text").value.toLowerCase().split(/\s+/).filter(Boolean);
    chosen = data.outcomes.filter((o) => active.every(([value, test]) => test(o, value)) && words.every((word) =>
      searchable[o[0]].includes(word) || outputs[o[2]].includes(word) || outputs[o[5]].includes(word)));
    start = 0;
    show();
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  byId("before").addEventListener("click", () => { start = Math.max(0, start - PAGE); show(); });
  byId("after").addEventListener("click", () => { start += PAGE; show(); });
  filter();
})();
