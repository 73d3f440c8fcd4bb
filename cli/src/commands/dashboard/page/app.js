// The page of `kubectl berth dashboard`. Text of the cluster gets into the page only as text nodes
// and attributes, never as HTML.

const main = document.getElementById("main");
const dialog = document.getElementById("dialog");
const SVG = "http://www.w3.org/2000/svg";
const GOOD = ["Healthy", "Complete", "Ready", "Succeeded"];
const BAD = ["Blocked", "Failed", "Unscheduled"];
const WAITS = ["Paused", "AtPartition", "Deleting", "Terminating", "NotReady"];
const WORDS = { AtPartition: "At its partition", NotReady: "Not ready" };
const LOST = 40000; // milliseconds without a message of the server

// ---- The token: from the address once, then of this tab.

function takeToken() {
  const found = /^#token=([0-9a-f]{64})$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem("token", found[1]);
    history.replaceState(null, "", "#/");
  }
}
takeToken();

async function request(path, options = {}) {
  const headers = { Authorization: `Bearer ${sessionStorage.getItem("token") || ""}`, ...options.headers };
  const answer = await fetch(path, { ...options, headers, cache: "no-store" });
  if (!answer.ok) {
    const { error } = await answer.json().catch(() => ({ error: `the dashboard answers ${answer.status}` }));
    throw Object.assign(new Error(error), { status: answer.status });
  }
  return answer;
}

// ---- Elements. `h("td.number", {…}, child…)`; a string is a text node.

function h(what, attributes, ...children) {
  const [tag, ...classes] = what.split(".");
  const isSvg = ["svg", "rect", "title"].includes(tag);
  const element = isSvg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value);
  }
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

// Makes the children of `now` those of `next`, and keeps elements: focus, selection, scroll and
// open details stay as the reader left them.
function morph(now, next) {
  const keyed = new Map([...now.children].filter((e) => e.dataset.key).map((e) => [e.dataset.key, e]));
  let at = now.firstChild;
  for (const wanted of [...next.childNodes]) {
    const key = wanted.dataset && wanted.dataset.key;
    if (key && keyed.has(key) && keyed.get(key) !== at) {
      at = now.insertBefore(keyed.get(key), at);
    }
    const isSame = at && at.nodeName === wanted.nodeName && (!at.dataset || at.dataset.key === key);
    if (!isSame) {
      now.insertBefore(wanted, at);
      continue;
    }
    if (at.nodeType === Node.TEXT_NODE) {
      if (at.data !== wanted.data) at.data = wanted.data;
    } else {
      attributes(at, wanted);
      morph(at, wanted);
    }
    at = at.nextSibling;
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function attributes(now, next) {
  for (const { name } of [...now.attributes]) {
    if (!next.hasAttribute(name) && name !== "open") now.removeAttribute(name);
  }
  for (const { name, value } of [...next.attributes]) {
    if (now.getAttribute(name) !== value) now.setAttribute(name, value);
  }
}

function render(...children) {
  const hadFocus = main.contains(document.activeElement);
  morph(main, h("main", {}, ...children));
  // The element with the focus is gone.
  if (hadFocus && !main.contains(document.activeElement)) main.focus();
}

// ---- Words.

function age(time) {
  const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(time)) / 1000));
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

// An age that counts on without a message of the server.
const ageOf = (time) => (time ? h("span", { "data-age": time, title: time }, age(time)) : "");
setInterval(() => {
  for (const one of document.querySelectorAll("[data-age]")) one.textContent = age(one.dataset.age);
}, 1000);

function size(bytes) {
  if (!Number.isFinite(bytes)) return "";
  return bytes < 1 << 30 ? `${(bytes / (1 << 20)).toFixed(1)} MiB` : `${(bytes / (1 << 30)).toFixed(1)} GiB`;
}

function state(name) {
  const kind = GOOD.includes(name) ? "good"
    : BAD.includes(name) || /(Error|BackOff|Err|Failed|Invalid)/.test(name) ? "bad"
      : WAITS.includes(name) ? "warn" : "busy";
  return h(`span.state.${kind}`, {}, WORDS[name] || name);
}

const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
const share = (some, all) => `${all > 0 ? Math.min(100, (100 * some) / all) : 0}`;
const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value));

function bar({ updated, ready, desired }) {
  const words = `${updated} updated and ${ready} ready of ${desired}`;
  return h("svg.bar", { viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": words },
    h("rect.updated", { x: 0, y: 0, height: 8, width: share(updated, desired) }),
    h("rect.ready", { x: 0, y: 5, height: 3, width: share(ready, desired) }));
}

function unread(list = []) {
  const items = list.map((text) => h("li", {}, text));
  return list.length > 0 && h("details.note", { "data-key": "unread", open: list.length === 1 && "" },
    h("summary", {}, list.length === 1 ? "One thing is not known" : `${list.length} things are not known`), h("ul", {}, items));
}

// On a narrow screen each row is a card, and its cells show the names of their columns.
function table(caption, columns, rows) {
  for (const one of rows) [...one.children].forEach((cell, at) => { cell.dataset.label = columns[at]; });
  return h("div.wide", { tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption.hidden", {}, caption),
      h("thead", {}, h("tr", {}, columns.map((column) => h("th", { scope: "col" }, column)))),
      h("tbody", {}, rows)));
}

const row = (key, ...cells) => h("tr", { "data-key": key }, cells.map((cell) =>
  cell instanceof Element && cell.localName === "td" ? cell : h("td", {}, cell)));
const number = (text) => h("td.number", {}, `${text}`);
const word = (text) => h("td.word", {}, text);

// ---- The views.

const pathOf = (one) => `/${one.namespace || "-"}/${one.plural}/${one.name}`;
const filter = { text: "" };

function showWorkloads(data) {
  document.title = "Workloads – Berth";
  const all = data.workloads;
  const wanted = filter.text.toLowerCase();
  const found = all.filter((one) => `${one.namespace}/${one.name} ${one.kind} ${one.state}`.toLowerCase().includes(wanted));
  const isAll = !data.namespace;
  const rows = found.map((one) => row(pathOf(one),
    h("td.name", {}, h("a", { href: `#/w${pathOf(one)}` }, one.name)), word(one.kind),
    ...(isAll ? [word(one.namespace || "–")] : []),
    [state(one.state), one.blocked && h("div.quiet.short", {}, `${one.blocked.reason}: ${one.blocked.message}`)],
    bar(one), number(`${one.updated} / ${one.ready} / ${one.desired}`),
    one.images.join(", "), h("td.number", {}, ageOf(one.created))));
  const where = isAll ? "all namespaces" : `namespace ${data.namespace}`;
  render(
    h("h1", { "data-key": "h" }, `Workloads of ${where}`),
    h("form.bar-of", { "data-key": "form", "data-act": "namespace" },
      h("label", {}, "Namespace (empty: all)",
        h("input", { name: "namespace", value: data.namespace, autocomplete: "off", spellcheck: "false" })),
      h("button", {}, "Show"),
      h("label", {}, "Filter", h("input", { name: "filter", type: "search", autocomplete: "off" })),
      h("span.quiet", {}, `${found.length} of ${all.length}`)),
    unread(data.unread),
    found.length
      ? table("Workloads", ["Name", "Kind", ...(isAll ? ["Namespace"] : []), "State", "Progress",
        "Updated / ready / wanted", "Images", "Age"], rows)
      : h("p", { "data-key": "none" }, all.length ? "No workload matches the filter." : "There is no workload of Berth here."));
  const count = (name) => found.filter((one) => one.state === name).length;
  say(`${plural(found.length, "workload")}, ${count("Progressing")} in progress, ${count("Blocked")} blocked`);
}

function showWorkload(data) {
  const one = data.summary;
  document.title = `${one.name} – Berth`;
  const blocked = one.blocked || data.plan.blocked;
  render(
    h("h1", { "data-key": "h" }, `${one.kind} ${one.namespace ? `${one.namespace}/` : ""}${one.name} `, state(one.state)),
    h("div.bar-of.counts", { "data-key": "bar" }, bar(one),
      h("span", {}, `${one.updated} updated, ${one.ready} ready, ${one.desired} wanted`
        + (one.target < one.desired ? `; the partition lets ${one.target} be updated` : ""))),
    h("div.buttons", { "data-key": "buttons" }, data.actions.filter((verb) =>
      verb !== "undo" && !(verb === "pause" && one.paused) && !(verb === "resume" && !one.paused))
      .map((verb) => h("button", { "data-act": "ask", "data-verb": verb, "data-key": verb }, title(verb)))),
    blocked && h("p.note.bad", { "data-key": "blocked" }, `Blocked, ${blocked.reason}: ${blocked.message}`),
    unread(data.unread),
    h("dl", { "data-key": "facts" },
      h("dt", {}, "Images"), h("dd", {}, one.images.join(", ")),
      data.strategy.map(([field, value]) => [h("dt", {}, field), h("dd", {}, value)]),
      h("dt", {}, "Age"), h("dd", {}, ageOf(one.created))),
    plan(data.plan),
    data.subsets && h("section", { "data-key": "subsets" }, h("h2", {}, "Subsets"),
      table("Subsets", ["Name", "Ready / wanted", "Partition"], data.subsets.map((subset) =>
        row(subset.name, subset.name, number(`${subset.readyReplicas || 0} / ${subset.replicas || 0}`), number(subset.partition || 0))))),
    h("section", { "data-key": "revisions" }, h("h2", {}, "Pods by revision"),
      data.revisions.length ? data.revisions.map((of) => revision(of, one, data.actions))
        : h("p.quiet", {}, "No revisions are known.")),
    h("section", { "data-key": "events" }, h("h2", {}, "Events"),
      data.events.length
        ? table("Events", ["Type", "Reason", "Message", "Count", "Last"], data.events.map((event, at) =>
          row(`${at}`, event.warning ? h("span.state.bad", {}, "Warning") : "Normal", event.reason, event.message,
            number(event.count), h("td.number", {}, ageOf(event.last)))))
        : h("p.quiet", {}, "There are no events.")));
  say(`${one.name}: ${one.updated} of ${one.desired} pods are updated, ${one.ready} ready; ${WORDS[one.state] || one.state}`
    + (blocked ? `; ${blocked.message}` : ""));
}

function plan(data) {
  const nothing = !data.error && data.now.length === 0 && data.waiting.length === 0;
  return h("section", { "data-key": "plan" }, h("h2", {}, "Plan"),
    data.error && h("p.note", {}, `Not known: ${data.error}`),
    unread(data.unread),
    nothing && h("p.quiet", {}, "Nothing to do, and nothing waits."),
    (data.now || []).length > 0 && [h("h3", {}, "Now"), h("ul", {}, data.now.flatMap((stage) => [
      ...stage.steps.map((step) => h("li", {}, `${stage.name}: ${step.reason} `, h("code.quiet", {}, step.writes.join(", ")))),
      stage.count > stage.steps.length && h("li.quiet", {}, `${stage.name}: ${stage.count - stage.steps.length} more`)]))],
    (data.waiting || []).length > 0 && [h("h3", {}, "Waits"), h("ul", {}, data.waiting.slice(0, 100).map((one) =>
      h("li", {}, h("strong", {}, one.pod || "The workload"), `: ${one.reason}`))),
    data.waiting.length > 100 && h("p.quiet", {}, `${data.waiting.length - 100} more`)]);
}

function revision(of, workload, actions) {
  const { pods } = of;
  const name = of.revision ? `Revision ${of.revision}` : of.hash ? "Pods of no kept revision" : "Pods without a revision";
  return h("article.revision", { "data-key": of.hash || "none" },
    h("h3", {}, name, h("code", {}, of.hash),
      of.isUpdate && h("span.tag", {}, "update"), of.isCurrent && h("span.tag", {}, "current"),
      h("span.quiet", {}, `${plural(pods.count, "pod")}, ${pods.ready} ready`), of.created && h("span.quiet", {}, ageOf(of.created)),
      of.cause && h("span.quiet", {}, of.cause)),
    pods.count > 0 && table(`Pods of ${name}`, ["Pod", "State", "Ready", "Restarts", "Node", "Age", "Information"],
      pods.shown.map((pod) => row(pod.name, h("td.name", {}, pod.name), state(pod.state),
        number(`${pod.ready}/${pod.containers}`), number(pod.restarts), pod.node, h("td.number", {}, ageOf(pod.created)),
        [pod.waits, pod.message, pod.inPlace && "updated in place"].filter(Boolean).join("; ")))),
    pods.count > pods.shown.length && h("p.quiet", {}, `${plural(pods.count - pods.shown.length, "more pod")}`),
    of.changes && h("details", {}, h("summary", {}, `${plural(of.changes.length, "change")} from the revision before`),
      h("ul", {}, of.changes.map((change) => h("li", {}, h("code", {}, change.path), ": ",
        change.old !== null && h("code.old", {}, shown(change.old)), " → ",
        change.new !== null ? h("code.new", {}, shown(change.new)) : "removed")))),
    of.template && h("details", {}, h("summary", {}, "Template"),
      h("pre", { tabindex: 0, "aria-label": "Template" }, JSON.stringify(of.template, null, 2))),
    of.revision && !of.isUpdate && actions.includes("undo") && h("div.buttons", {},
      h("button", { "data-act": "ask", "data-verb": "undo", "data-revision": of.revision },
        `Go back to revision ${of.revision}…`)));
}

const details = new Map();

function showNodes(data) {
  document.title = "Nodes – Berth";
  render(h("h1", { "data-key": "h" }, "Nodes"), unread(data.unread),
    data.nodes.map((node) => h("article.revision", { "data-key": node.name },
      h("h3", {}, node.name, state(node.ready ? "Ready" : "NotReady"), node.cordoned && h("span.tag", {}, "cordoned"),
        h("span.quiet", {}, node.kubelet), h("span.quiet", {}, ageOf(node.created))),
      h("p", {}, `${node.images} images, ${size(node.imageBytes)}; pulls: `,
        node.pulls.desired === null ? "no NodeImage"
          : `${node.pulls.pulling} run, ${node.pulls.succeeded} succeeded, ${node.pulls.failed} failed`),
      pulls(node.pulls.shown),
      h("div.buttons", {}, h("button", { "data-act": "node", "data-node": node.name },
        details.has(node.name) ? "Read again" : "Images, and what a drain would get",
        h("span.hidden", {}, ` of node ${node.name}`))),
      details.has(node.name) && nodeDetails(details.get(node.name)))));
  say(`${plural(data.nodes.length, "node")}, ${data.nodes.filter((node) => !node.ready).length} not ready`);
}

function pulls(list) {
  return list.length > 0 && h("ul", {}, list.map((pull) => h("li", {}, state(pull.phase), ` ${pull.image} `,
    pull.bytesTotal ? `${size(pull.bytesDone || 0)} of ${size(pull.bytesTotal)}` : pull.phase === "Pulling" ? `${pull.progress} %` : "",
    pull.message && ` – ${pull.message}`)));
}

function nodeDetails(data) {
  if (data.error) return h("p.note.bad", {}, data.error);
  if (data.reading) return h("p.quiet", {}, "Reading…");
  return h("div", {}, unread(data.unread),
    h("h3", {}, "What a drain would get now"),
    data.drain.length ? table("Result of a drain", ["Namespace", "Pod", "Answer"],
      data.drain.map((pod) => row(`${pod.namespace}/${pod.name}`, pod.namespace, pod.name, pod.answer)))
      : h("p.quiet", {}, "No pods are known on the node."),
    data.drained.map((sentence) => h("p", {}, sentence)),
    data.pulls.length > 0 && [h("h3", {}, "Pulls"), pulls(data.pulls)],
    h("details", {}, h("summary", {}, plural(data.images.length, "image")), h("ul", {}, data.images.map((image) =>
      h("li", {}, h("code", {}, image.name || "without a name"), ` ${size(image.bytes)}`)))));
}

async function readNode(name) {
  details.set(name, { reading: true });
  show(last);
  try {
    details.set(name, await (await request(`/api/nodes/${encodeURIComponent(name)}`)).json());
  } catch (failed) {
    details.set(name, { error: failed.message });
  }
  if (view.name === "nodes") show(last);
}

// ---- Messages for screen readers: at most one each two seconds, and the last one always.

let waiting = null;
let spoken = "";
function say(text) {
  waiting = text === spoken ? null : text;
}
setInterval(() => {
  if (waiting === null) return;
  spoken = waiting;
  waiting = null;
  document.getElementById("said").textContent = spoken;
}, 2000);

function link(text, isLost = false) {
  const place = document.getElementById("link");
  if (place.textContent !== text) place.textContent = text;
  place.classList.toggle("lost", isLost);
}

// ---- The stream. EventSource cannot send the token, so that fetch reads it.

let view = { name: "" };
let last = null;
let stream = null;

function viewOf(hash) {
  const parts = hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  if (parts[0] === "w" && parts.length === 4) {
    const [, namespace, kind, name] = parts;
    return { name: "workload", query: { view: "workload", namespace, kind, name }, show: showWorkload,
      path: `/api/workloads/${[namespace, kind, name].map(encodeURIComponent).join("/")}` };
  }
  if (parts[0] === "nodes") return { name: "nodes", query: { view: "nodes" }, show: showNodes };
  const query = { view: "workloads" };
  if (parts[0] === "ns") query.namespace = parts[1] || "";
  return { name: "workloads", query, show: showWorkloads };
}

function show(data) {
  last = data;
  if (data) view.show(data);
}

function refused({ status, error }) {
  const remedy = status === 403 ? " Ask for this right, or look at another namespace." : "";
  render(h("h1", {}, status === 403 ? "You lack a right" : "This cannot be shown"), h("p.note.bad", {}, `${error}.${remedy}`),
    view.name === "workload" && h("p", {}, h("a", { href: "#/" }, "All workloads")),
    view.name === "workloads" && h("form.bar-of", { "data-act": "namespace" }, h("label", {}, "Namespace",
      h("input", { name: "namespace", autocomplete: "off" })), h("button", {}, "Show")));
  say(error);
}

function message(text) {
  const field = (name) => text.split("\n").filter((line) => line.startsWith(`${name}: `))
    .map((line) => line.slice(name.length + 2)).join("\n");
  const data = field("data");
  if (!data) return;
  if (field("event") === "state") show(JSON.parse(data));
  else refused(JSON.parse(data));
}

async function follow(of) {
  const stopped = new AbortController();
  stream = stopped;
  for (let pause = 1000; stream === stopped; pause = Math.min(2 * pause, 15000)) {
    const one = new AbortController();
    stopped.signal.addEventListener("abort", () => one.abort(), { once: true });
    let timer = 0;
    try {
      const answer = await request(`/api/watch?${new URLSearchParams(of.query)}`, { signal: one.signal });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      link("live");
      let rest = "";
      for (;;) {
        timer = setTimeout(() => one.abort(), LOST);
        const { done, value } = await reader.read();
        clearTimeout(timer);
        if (done) break;
        pause = 500;
        const messages = (rest + value).split("\n\n");
        rest = messages.pop();
        if (stream === stopped) messages.forEach(message);
      }
    } catch (failed) {
      clearTimeout(timer);
      if (stream !== stopped) return;
      if (failed.status === 401 || failed.status === 400 || failed.status === 404) {
        link("not connected", true);
        return refused({ status: failed.status, error: failed.message });
      }
      link("no answer from `kubectl berth dashboard`; trying again", true);
    }
    await new Promise((wake) => setTimeout(wake, pause));
  }
}

function go() {
  takeToken();
  if (stream) stream.abort();
  stream = null;
  const next = viewOf(location.hash);
  if (JSON.stringify(next.query) !== JSON.stringify(view.query)) {
    if (dialog.open) dialog.close();
    last = null;
    filter.text = "";
    render(h("p", {}, "Reading the cluster…"));
    if (view.name) main.focus();
    scrollTo(0, 0);
  }
  view = next;
  for (const one of document.querySelectorAll("nav a")) {
    const isHere = (one.hash === "#/nodes") === (view.name === "nodes");
    if (isHere) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  // A browser has few connections for a server: a hidden tab gives its own back.
  if (document.visibilityState === "visible") follow(view);
}
addEventListener("hashchange", go);
document.addEventListener("visibilitychange", go);

// ---- Changes: ask, show the patch, carry it out.

const TITLES = { pause: "Pause", resume: "Resume", restart: "Restart", undo: "Go back", partition: "Set partition" };
const title = (verb) => `${TITLES[verb]}…`;
let asked = null;

function ask(verb, revisionNumber) {
  asked = { verb, body: {}, path: `${view.path}/actions/${verb}`, of: last.summary, from: document.activeElement };
  if (revisionNumber) asked.body.revision = Number(revisionNumber);
  draw();
  dialog.showModal();
  if (verb === "partition") dialog.querySelector("input").focus();
  else preview();
}

function draw({ shown: answer, error, busy, done } = {}) {
  const { verb, of, body } = asked;
  const what = `${TITLES[verb]}: ${of.kind} ${of.name}${body.revision ? `, revision ${body.revision}` : ""}`;
  const needsInput = verb === "partition" && !answer && !done;
  dialog.replaceChildren(
    h("h2", { id: "dialog-title" }, what),
    h("form", { "data-act": needsInput ? "preview" : "carry", method: "dialog" },
      needsInput && h("label", {}, `How many pods stay at the old revision (of ${of.desired}): a number or a percentage`,
        h("input", { name: "partition", value: body.partition ?? of.partition ?? 0, required: "", autocomplete: "off" })),
      answer && !done && [h("p", {}, answer.effect), answer.way && h("p", {}, `The pods change ${answer.way}.`), h("p.quiet", {}, "The patch; the apiserver has accepted it as a dry run:"),
        h("pre", { tabindex: 0, "aria-label": "Patch" }, JSON.stringify(answer.patch, null, 2))],
      h("div", { role: "status" }, busy && h("p", {}, busy), done && h("p", {}, done)),
      error && h("p.note.bad", { role: "alert" }, error),
      h("div.buttons", {},
        needsInput && h("button.main", { disabled: busy && "" }, "Show the patch"),
        answer && !done && h("button.main", { disabled: busy && "" }, "Carry it out"),
        h("button", { type: "button", "data-act": "close" }, done || error ? "Close" : "Cancel"))));
  const first = dialog.querySelector(needsInput ? "input" : "button.main:enabled") || dialog.querySelector("button");
  if (first && dialog.open) first.focus();
}

const post = async (path, body) => (await request(path, {
  method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" },
})).json();

async function preview() {
  const mine = asked;
  draw({ busy: "Asking the apiserver…" });
  try {
    const answer = await post(mine.path, { ...mine.body, dryRun: true });
    if (asked !== mine) return;
    mine.answer = answer;
    draw({ shown: answer });
  } catch (failed) {
    if (asked === mine) draw({ error: failed.message });
  }
}

async function carry() {
  const mine = asked;
  if (!mine.answer) return;
  const { generation, at } = mine.answer;
  draw({ shown: mine.answer, busy: "Writing…" });
  try {
    await post(mine.path, { ...mine.body, dryRun: false, generation, at });
    if (asked === mine) draw({ done: "Done. The page shows what follows." });
    say(`${TITLES[mine.verb]}: done`);
  } catch (failed) {
    mine.answer = null;
    if (asked === mine) draw({ error: failed.message });
  }
}

dialog.addEventListener("close", () => {
  // The event comes late, and the dialog may be open for another change.
  if (dialog.open) return;
  const from = asked && asked.from;
  asked = null;
  if (from && from.isConnected) from.focus();
  else main.focus();
});

// ---- Events, for all elements that have been and will be.

document.addEventListener("click", (event) => {
  const of = event.target.closest("button[data-act], a[data-act]");
  if (!of) return;
  const { act, verb, revision: revisionNumber, node } = of.dataset;
  if (act === "ask") ask(verb, revisionNumber);
  if (act === "close") dialog.close();
  if (act === "node") readNode(node);
  if (act === "skip") {
    event.preventDefault();
    main.focus();
  }
});

document.addEventListener("submit", (event) => {
  event.preventDefault();
  const form = event.target;
  if (form.dataset.act === "namespace") location.hash = `#/ns/${encodeURIComponent(form.elements.namespace.value.trim())}`;
  if (form.dataset.act === "preview") {
    const text = form.elements.partition.value.trim();
    asked.body.partition = /^\d+$/.test(text) ? Number(text) : text;
    preview();
  }
  if (form.dataset.act === "carry") carry();
});

document.addEventListener("input", (event) => {
  if (event.target.name !== "filter") return;
  filter.text = event.target.value;
  show(last);
});

go();
