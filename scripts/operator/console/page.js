/** The operator's console in the browser. It polls the overview and reads the rest on request. */

/** @import { Alert, Fact, Overview, Section, Table } from "../console-view.ts" */

const POLL_MS = 5_000;
const REQUEST_TIMEOUT_MS = 15_000;
/** Two polls. Data that is older is not shown as current. */
const STALE_AFTER_MS = 12_000;
const SCAN_TIMEOUT_MS = 125_000;
const TABLES = /** @type {const} */ (["withdrawals", "approvals", "audit"]);

let answeredAt = -Infinity;
let lost = false;
let detail = "";
let well = false;
let answer = "";
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
let polling = false;

/** @param {string} id */
function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`no element ${id}`);
  return found;
}

/**
 * Text only, so that nothing from the database is read as markup.
 * @param {string} name
 * @param {string} text
 * @param {string} className
 */
function element(name, text = "", className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (className !== "") made.className = className;
  return made;
}

/**
 * Sets the text only if it differs, because a live region announces each change.
 * @param {string} id
 * @param {string} text
 * @param {string} className
 */
function say(id, text, className = "") {
  const target = byId(id);
  if (target.textContent !== text) target.textContent = text;
  target.className = className;
}

/** @param {string} path @param {number} timeoutMs */
async function get(path, timeoutMs = REQUEST_TIMEOUT_MS) {
  const response = await fetch(path, { signal: AbortSignal.timeout(timeoutMs) });
  const body = await response.json();
  if (!response.ok) throw new Error(body.detail);
  return body;
}

async function poll() {
  if (polling) return;
  polling = true;
  clearTimeout(timer);
  try {
    /** @type {{ at: string, result: Overview }} */
    const { at, result } = await get("data/overview");
    answeredAt = performance.now();
    lost = false;
    ({ well, answer } = result);
    say("answered", at.slice(0, 19).replace("T", " "));
    showFacts(byId("facts"), result.facts);
    showAlerts(byId("alerts"), result.alerts);
    for (const name of TABLES) showTable(byId(name), result.tables[name], titleOf(name));
  } catch (error) {
    lost = true;
    detail = error instanceof Error ? error.message : String(error);
  }
  polling = false;
  showState();
  // A hidden page asks nothing, because each question is an order.
  if (!document.hidden) timer = setTimeout(poll, POLL_MS);
}

function showState() {
  const stale = lost || performance.now() - answeredAt > STALE_AFTER_MS;
  const begun = answeredAt > -Infinity;
  byId("polled").classList.toggle("stale", stale);
  if (lost) say("connection", `Connection lost, trying again. ${detail}`, "badge lost");
  else if (stale) say("connection", "Waiting for an answer", "badge");
  else say("connection", "Live", "badge live");
  if (stale) say("verdict", begun ? "Not known: the data below is old" : "Not known yet");
  else say("verdict", answer, well ? "" : "down");
}

/** @param {string} id */
function titleOf(id) {
  return byId(`${id}-title`).textContent ?? id;
}

/** @param {Element} into @param {readonly Fact[]} facts */
function showFacts(into, facts) {
  into.replaceChildren(
    ...facts.map(({ name, value, bad }) => {
      const group = element("div", "", bad ? "tile bad" : "tile");
      const shown = bad ? `Attention: ${value}` : value;
      group.append(element("dt", name), element("dd", shown));
      return group;
    }),
  );
}

/**
 * Rebuilds a part only if its data changed, and leaves the focus where it was.
 * @param {HTMLElement} into
 * @param {object} data
 * @param {() => void} build
 */
function update(into, data, build) {
  const text = JSON.stringify(data);
  if (into.dataset["shown"] === text) return;
  into.dataset["shown"] = text;
  const focused = document.activeElement;
  const command = focused instanceof HTMLElement ? focused.dataset["command"] : undefined;
  build();
  if (command === undefined || !(focused instanceof HTMLElement) || focused.isConnected) return;
  for (const button of into.querySelectorAll("button"))
    if (button.dataset["command"] === command) button.focus();
}

/** @param {HTMLElement} into @param {Table} table @param {string} label */
function showTable(into, table, label) {
  update(into, table, () => {
    if (table.rows.length === 0) return into.replaceChildren(element("p", "None", "muted"));
    const region = into.querySelector(".scroll") ?? into.appendChild(scrollRegion(label));
    region.replaceChildren(tableElement(table));
    into.querySelector(":scope > p")?.remove();
  });
}

/** @param {HTMLElement} into @param {readonly Alert[]} alerts */
function showAlerts(into, alerts) {
  update(into, alerts, () => {
    const items = alerts.map(({ now, title, since, detail: text, handbook, command }) => {
      const item = element("li", "", now ? "alert bad" : "alert");
      item.append(
        element("p", now ? "Act now" : "Can wait", now ? "down" : "warn"),
        element("h3", title),
        element("p", since, "muted"),
        element("p", text),
        ...(command === undefined ? [] : [commandElement("p", command)]),
        element("small", handbook, "muted"),
      );
      return item;
    });
    into.replaceChildren(...(items.length === 0 ? [element("li", "None", "muted")] : items));
  });
}

/** @param {string} label */
function scrollRegion(label) {
  const region = element("div", "", "scroll");
  region.tabIndex = 0;
  region.setAttribute("role", "group");
  region.setAttribute("aria-label", label);
  return region;
}

/** @param {Table} table */
function tableElement({ columns, rows }) {
  const hasCommands = rows.some(({ command }) => command !== undefined);
  const made = element("table");
  const head = made.appendChild(element("thead")).appendChild(element("tr"));
  for (const column of [...columns, ...(hasCommands ? ["Next command"] : [])]) {
    const cell = head.appendChild(element("th", column));
    cell.setAttribute("scope", "col");
  }
  const body = made.appendChild(element("tbody"));
  for (const { cells, command } of rows) {
    const row = body.appendChild(element("tr"));
    for (const [index, text] of cells.entries())
      row.appendChild(element("td", text)).dataset["title"] = columns[index] ?? "";
    if (command !== undefined) row.append(commandElement("td", command));
    else if (hasCommands) row.append(element("td"));
  }
  return made;
}

/** @param {string} name @param {string} command */
function commandElement(name, command) {
  const made = element(name, "", "command");
  const button = element("button", "Copy");
  button.dataset["command"] = command;
  button.setAttribute("aria-label", `Copy ${command}`);
  button.addEventListener("click", () => {
    void navigator.clipboard.writeText(command).then(() => (button.textContent = "Copied"));
  });
  made.append(element("code", command), " ", button);
  return made;
}

/** @param {HTMLElement} into @param {readonly Section[]} sections */
function showSections(into, sections) {
  into.replaceChildren(
    ...sections.flatMap((section) => {
      if ("facts" in section) {
        const list = element("dl", "", "tiles");
        showFacts(list, section.facts);
        return [list];
      }
      const part = element("div");
      showTable(part, section.table, section.title);
      return [element("h3", section.title), part];
    }),
  );
}

/** @param {string} id @param {string} path @param {number} timeoutMs */
async function readOnRequest(id, path, timeoutMs = REQUEST_TIMEOUT_MS) {
  say(`${id}-state`, "Reading");
  byId(id).replaceChildren();
  try {
    const { at, result } = await get(path, timeoutMs);
    showSections(byId(id), result);
    say(`${id}-state`, `As of ${at.slice(0, 19).replace("T", " ")}`);
  } catch (error) {
    say(`${id}-state`, error instanceof Error ? error.message : String(error), "problem");
  }
}

byId("user-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const email = /** @type {HTMLInputElement} */ (byId("email")).value;
  void readOnRequest("user", `data/user?email=${encodeURIComponent(email)}`);
});
byId("storage-button").addEventListener(
  "click",
  () => void readOnRequest("storage", "data/storage", SCAN_TIMEOUT_MS),
);
byId("liabilities-button").addEventListener(
  "click",
  () => void readOnRequest("liabilities", "data/liabilities"),
);
document.addEventListener("visibilitychange", () => void (document.hidden || poll()));
setInterval(showState, 1_000);
void poll();
