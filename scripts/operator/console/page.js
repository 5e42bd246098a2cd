/** The operator's console in the browser. It polls the overview and reads the rest on request. */

/** @import { Fact, Overview, Section, Table } from "../console-view.ts" */

const POLL_MS = 5_000;
const REQUEST_TIMEOUT_MS = 15_000;
/** Two polls. Data that is older is not shown as current. */
const STALE_AFTER_MS = 12_000;
const SCAN_TIMEOUT_MS = 125_000;
const TABLES = /** @type {const} */ (["alerts", "withdrawals", "approvals", "audit"]);

let answeredAt = -Infinity;
let lost = false;
let detail = "";
let well = false;
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
    well = result.well;
    say("answered", at.slice(0, 19).replace("T", " "));
    showFacts(byId("facts"), result.facts);
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
  if (lost) say("connection", `Connection lost, trying again. ${detail}`, "bad");
  else if (stale) say("connection", "Waiting for an answer");
  else say("connection", "Live", "good");
  if (stale) say("verdict", begun ? "Not known: the data below is old" : "Not known yet");
  else if (well) say("verdict", "All is well", "good");
  else say("verdict", "Not all is well", "bad");
}

/** @param {string} id */
function titleOf(id) {
  return byId(`${id}-title`).textContent ?? id;
}

/** @param {Element} into @param {readonly Fact[]} facts */
function showFacts(into, facts) {
  into.replaceChildren(
    ...facts.map(({ name, value, bad }) => {
      const group = element("div");
      const shown = bad ? `Attention: ${value}` : value;
      group.append(element("dt", name), element("dd", shown, bad ? "bad" : ""));
      return group;
    }),
  );
}

/**
 * Rebuilds a table only if it changed, and leaves scrolling and focus where they were.
 * @param {HTMLElement} into
 * @param {Table} table
 * @param {string} label
 */
function showTable(into, table, label) {
  const text = JSON.stringify(table);
  if (into.dataset["shown"] === text) return;
  into.dataset["shown"] = text;
  if (table.rows.length === 0) return into.replaceChildren(element("p", "None"));
  const focused = document.activeElement;
  const command = focused instanceof HTMLElement ? focused.dataset["command"] : undefined;
  const region = into.querySelector(".scroll") ?? into.appendChild(scrollRegion(label));
  region.replaceChildren(tableElement(table));
  into.querySelector(":scope > p")?.remove();
  if (command === undefined || !(focused instanceof HTMLElement) || focused.isConnected) return;
  for (const button of into.querySelectorAll("button"))
    if (button.dataset["command"] === command) button.focus();
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
    row.append(...cells.map((text) => element("td", text)));
    if (hasCommands) row.append(commandCell(command));
  }
  return made;
}

/** @param {string | undefined} command */
function commandCell(command) {
  const cell = element("td");
  if (command === undefined) return cell;
  const button = element("button", "Copy");
  button.dataset["command"] = command;
  button.setAttribute("aria-label", `Copy ${command}`);
  button.addEventListener("click", () => {
    void navigator.clipboard.writeText(command).then(() => (button.textContent = "Copied"));
  });
  cell.append(element("code", command), " ", button);
  return cell;
}

/** @param {HTMLElement} into @param {readonly Section[]} sections */
function showSections(into, sections) {
  into.replaceChildren(
    ...sections.flatMap((section) => {
      if ("facts" in section) {
        const list = element("dl");
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
    say(`${id}-state`, error instanceof Error ? error.message : String(error), "bad");
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
