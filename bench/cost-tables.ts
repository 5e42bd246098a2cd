/**
 * `npm run costs` computes what follows in docs/costs.md from its measured rows and from prices.ts,
 * and writes it there. A test runs it, too, so the document agrees with itself.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { billOf, dollarsOf, type Month, NOTHING_BILLED } from "./prices.ts";

const DOCUMENT = "docs/costs.md";
const MONTH_SECS = 30 * 86_400;
const GB = 1e9;
/** As the sealer does: at least every ten minutes, and 10 000 transfers in a seal. */
const SEAL_SECS = 600;
const TRANSFERS_PER_SEAL = 10_000;
const TRANSFERS_PER_QUOTE = 2;
/** An assumption: the users with a block in a seal. The history of each reads the seal's footer. */
const USERS_PER_SEAL = 40;
/** Read back when written, read for its release, and its footer for the list of histories. */
const READS_PER_SEAL = 3;
/** New business stops there (src/platform/storage.ts). */
const FULL_GB = 8;
/** Of the table of bytes that come and go. */
const HOT_RATE = 300;
/** The rounds of a minute by an idle payer's alarm and by cron (src/custody/payer/payer.ts). */
const PAYER_ROUNDS = 3;
const CRON_ROUNDS = 1;

type Row = readonly string[];

/** The document with every computed cell as its measured rows say. */
export function withCosts(document: string): string {
  let text = document;
  const rows = (first: string) => tableOf(text, first).rows;
  const replace = (first: string, change: (row: Row) => Row) => {
    const table = tableOf(text, first);
    const body = table.rows.map((row) => `| ${change(row).join(" | ")} |`);
    text = text.replace(table.text, () => `${table.head}\n${body.join("\n")}\n`);
  };
  /** The number in the last cell of the row that begins with `name`. */
  const measured = (first: string, name: string) => {
    const row = rows(first).find(([cell = ""]) => cell.startsWith(name));
    if (row === undefined) throw new Error(`no row ${name}`);
    return numberOf(row.at(-1));
  };

  replace("verb", (row) => [...row.slice(0, -1), dollars(dollarsOf(callOf(row)))]);

  const parts = rows("a quote").filter(([name = ""]) => name.startsWith("…"));
  const rowsWritten = sum(parts.map((row) => numberOf(row.at(-1))));
  const life = { rowsWritten, rowsRead: measured("a quote", "rows read") };
  const lifeDollars = dollarsOf({ calls: 1, meter: { ...NOTHING_BILLED, frames: 1, ...life } });
  replace("a quote", ([name = "", value = ""]) => {
    if (name.startsWith("rows written")) return [name, tenths(rowsWritten)];
    return [name, name.startsWith("dollars") ? dollars(lifeDollars) : value];
  });

  const isSum = ([name = ""]: Row) => name === "**together**";
  replace("bytes that come and go", (row) => {
    const [name = "", bytes, millions] = row;
    if (isSum(row)) return row;
    const gb = (numberOf(bytes) * numberOf(millions)) / 1e3;
    return [name, bytes ?? "", millions ?? "", tenths(gb)];
  });
  const parted = rows("bytes that come and go").filter((row) => !isSum(row));
  const hotGb = sum(parted.map((row) => numberOf(row.at(-1))));
  replace("bytes that come and go", (row) =>
    isSum(row) ? [...row.slice(0, -1), `**${tenths(hotGb)}**`] : row,
  );
  const sealedBytes = measured("what a seal keeps", "of a quote");

  const monthAt = (rate: number) => monthOf(rate, { ...life, hotGb, sealedBytes });
  replace("quotes a second", ([rate = ""]) => {
    const month = monthAt(numberOf(rate));
    const bill = billOf(month);
    const second = grouped(numberOf(rate) * rowsWritten);
    const cells = [bill.rows, bill.requests, bill.storage].map(dollars);
    return [rate, second, gigabytes(month.r2Gb), ...cells, `**${dollars(bill.sum)}**`];
  });

  const calls = /watcher: (\d+) calls, (\d+) with a new block; payer: (\d+)/.exec(text) ?? [];
  const [, , watcher = 0, payer = 0] = calls.map(Number);
  replace("`poll_ms`", ([poll = ""]) => {
    const rounds = 60_000 / numberOf(poll) + CRON_ROUNDS;
    const month = (MONTH_SECS / 60) * (rounds * watcher + PAYER_ROUNDS * payer);
    return [poll, tenths(month / 1e6)];
  });

  const bytesOf = (name: string) =>
    numberOf(rows("what stays").find(([cell = ""]) => cell.startsWith(name))?.[1]);
  const venue = (column: number) => {
    const given = (name: string) =>
      numberOf(rows("a venue with").find(([cell = ""]) => cell.startsWith(name))?.[column]);
    const month = monthAt(given("quotes a second"));
    const perUser =
      given("new markets") * bytesOf("accounts") +
      given("deposits") * (bytesOf("a deposit") + bytesOf("a withdrawal")) +
      given("audit events") * bytesOf("an audit event");
    const grows = given("users") * perUser + month.r2Writes * bytesOf("a seal");
    const hot = (hotGb * given("quotes a second")) / HOT_RATE;
    return { grows, hot, months: Math.max(0, ((FULL_GB - hot) * GB) / grows), bill: billOf(month) };
  };
  const venues = [1, 2, 3].map(venue);
  const COMPUTED: Record<string, (of: ReturnType<typeof venue>) => string> = {
    "MB a month that stay": ({ grows }) => grouped(grows / 1e6),
    "GB that come and go": ({ hot }) => gigabytes(hot),
    "dollars a month for quotes": ({ bill }) => dollars(bill.sum),
    "**months until new business stops**": ({ months }) => `**${tenths(months)}**`,
  };
  replace("a venue with", (row) => {
    const compute = COMPUTED[row[0] ?? ""];
    return compute === undefined ? row : [row[0] ?? "", ...venues.map(compute)];
  });
  return text;
}

function callOf([, requests = "", objectCalls, , rowsRead, rowsWritten]: Row) {
  const isFrame = requests.endsWith("frame");
  const meter = {
    ...NOTHING_BILLED,
    [isFrame ? "frames" : "requests"]: numberOf(requests),
    objectCalls: numberOf(objectCalls),
    rowsRead: numberOf(rowsRead),
    rowsWritten: numberOf(rowsWritten),
  };
  return { calls: 1, meter };
}

type Lived = {
  readonly rowsWritten: number;
  readonly rowsRead: number;
  /** At `HOT_RATE`. */
  readonly hotGb: number;
  readonly sealedBytes: number;
};

function monthOf(rate: number, { rowsWritten, rowsRead, hotGb, sealedBytes }: Lived): Month {
  const quotes = rate * MONTH_SECS;
  const seals = Math.max(
    MONTH_SECS / SEAL_SECS,
    (TRANSFERS_PER_QUOTE * quotes) / TRANSFERS_PER_SEAL,
  );
  return {
    requests: quotes,
    objectCalls: quotes,
    rowsRead: quotes * rowsRead,
    rowsWritten: quotes * rowsWritten,
    r2Writes: seals,
    r2Reads: seals * (READS_PER_SEAL + USERS_PER_SEAL),
    d1Gb: (hotGb * rate) / HOT_RATE,
    r2Gb: (quotes * sealedBytes) / GB,
  };
}

/** The table whose first heading begins so. */
function tableOf(document: string, first: string) {
  const tables = document.match(/(?:^\|.*\n)+/gm) ?? [];
  const text = tables.find((table) => table.startsWith(`| ${first}`));
  if (text === undefined) throw new Error(`${DOCUMENT} has no table "${first}"`);
  const [heading = "", rule = "", ...body] = text.trimEnd().split("\n");
  const rows = body.map((line) =>
    line
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.trim()),
  );
  return { text, head: `${heading}\n${rule}`, rows };
}

/** Of a cell such as `**1 040**` or `1 frame`. Throws if it contains none. */
function numberOf(cell = ""): number {
  const text = cell.replaceAll(/[*\s]/g, "").replace(/frame$/, "");
  if (!/^\d+(?:\.\d+)?$/.test(text)) throw new Error(`no number: "${cell}"`);
  return Number(text);
}

const sum = (values: readonly number[]) => values.reduce((all, one) => all + one, 0);
const grouped = (value: number) => Math.round(value).toLocaleString("en").replaceAll(",", " ");
const tenths = (value: number) => (value < 100 ? value.toFixed(1) : grouped(value));
const gigabytes = (value: number) => (value < 1 ? value.toFixed(2) : tenths(value));
/** Three digits are more than prices and counts deserve. */
const dollars = (value: number) =>
  value < 10 ? value.toFixed(2) : grouped(Number(value.toPrecision(3)));

if (import.meta.main) writeFileSync(DOCUMENT, withCosts(readFileSync(DOCUMENT, "utf8")));
