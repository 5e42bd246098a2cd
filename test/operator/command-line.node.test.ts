import { describe, expect, it } from "vitest";
import {
  COMMANDS,
  UsageError,
  parseCommand,
  usage,
  explained,
} from "../../scripts/operator/commands.ts";
import { LISTED_DEPOSIT_STATUSES, WITHDRAWAL_STATUSES } from "../../src/custody/column-values.ts";
import { OPTIONS } from "../../src/operator/options.ts";
import { MARKET_STATUSES } from "../../src/rfq/markets/market.ts";
import { QUOTE_STATUSES, REQUEST_STATUSES } from "../../src/rfq/statuses.ts";
import { formatResult } from "../../scripts/operator/print.ts";

const parse = (line: string) => parseCommand(line.split(" "));

function usageErrorOf(line: string): UsageError {
  try {
    parse(line);
  } catch (error) {
    if (error instanceof UsageError) return error;
  }
  return expect.fail(`${line} is valid usage`);
}

/** Options of calls that the tool makes itself, and of its flags that it keeps. */
const OF_TOOL = ["password", "sha256", "markets", "records", "part", "after", "most", "continue"];
const KEPT = new Set([
  "withdrawals rescue --send",
  "market import --file",
  "records put --file",
  "approve --yes",
]);

it.each(COMMANDS.filter(({ words }) => words.join(" ") in OPTIONS))(
  "the Worker knows the options of $words",
  ({ words, flags = [], user = [], argument }) => {
    const name = words.join(" ");
    const known = OPTIONS[name as keyof typeof OPTIONS].split(" ").filter(Boolean);
    const sent = [...flags, ...user]
      .map((flag) => flag.name)
      .filter((flag) => !KEPT.has(`${name} --${flag}`));
    expect(known.filter((option) => !OF_TOOL.includes(option)).toSorted()).toEqual(
      [...sent, ...(argument === undefined ? [] : ["word"])].toSorted(),
    );
  },
);

describe("the operator's command line", () => {
  it.each([
    ["deposits", LISTED_DEPOSIT_STATUSES],
    ["withdrawals", WITHDRAWAL_STATUSES],
    ["requests", REQUEST_STATUSES],
    ["quotes", QUOTE_STATUSES],
    ["market", MARKET_STATUSES],
  ])("names every status of %s list", (noun, statuses) => {
    const list = COMMANDS.find(({ words }) => words.join(" ") === `${noun} list`);
    const help = list?.flags?.find(({ name }) => name === "status")?.help;
    expect(help?.split(/, | or /).toSorted()).toEqual([...statuses].toSorted());
  });

  it("sends words, flags and the name of the operator", () => {
    expect(parse("api-key create --email a@b.c --scopes read,withdraw --label bot --json")).toEqual(
      {
        help: false,
        json: true,
        csv: false,
        wide: false,
        dir: undefined,
        command: {
          command: ["api-key", "create"],
          options: { email: "a@b.c", scopes: "read,withdraw", label: "bot" },
          operator: undefined,
        },
      },
    );
    expect(parse("venue pause venue_one --env acme --operator ada")).toMatchObject({
      env: "acme",
      command: { command: ["venue", "pause", "venue_one"], options: {}, operator: "ada" },
    });
  });

  it.each([
    "users",
    "user create",
    "user create --email",
    "user create --email a@b.c --scopes read",
    "user create now --email a@b.c",
    "venue pause",
    "venue pause venue_one venue_two",
    "reconcile --id x",
    "reconcile --unknown",
    "keys",
    "withdrawals rescue --token native --to 0x1",
  ])("rejects `%s`", (line) => {
    expect(() => parse(line)).toThrow(UsageError);
  });

  it("takes a user by email or by id, but not both", () => {
    for (const words of [
      "user freeze",
      "user unfreeze",
      "user begin-day --limit tickets_per_day",
      "user set-password",
      "api-key create --scopes read",
    ]) {
      expect(parse(`${words} --user-id 1`)).toMatchObject({
        command: { options: { "user-id": "1" } },
      });
      expect(parse(`${words} --email a@b.c`)).toMatchObject({
        command: { options: { email: "a@b.c" } },
      });
      expect(() => parse(words)).toThrow("requires --email or --user-id");
      expect(() => parse(`${words} --email a@b.c --user-id 1`)).toThrow("not both");
    }
  });

  it("sends negative numbers as values and switches as true", () => {
    expect(parse("audit list --limit -1")).toMatchObject({ command: { options: { limit: "-1" } } });
    expect(parse("restore --yes")).toMatchObject({ command: { options: { yes: "true" } } });
    expect(parse("restore")).toMatchObject({ command: { options: {} } });
  });

  it.each([
    ["user freeze", ["user freeze"], ["user create", "venue pause"]],
    ["reconcile --unknown", ["reconcile"], ["user create"]],
  ])("shows the help of the intended command for `%s`", (line, shown, hidden) => {
    const help = explained(usageErrorOf(line));
    for (const command of shown) expect(help).toContain(command);
    for (const command of hidden) expect(help).not.toContain(command);
  });

  it.each([
    ["withdrawls list", "withdrawals list"],
    ["user unfreze", "user unfreeze"],
    ["alert list", "alerts list"],
    ["reconsile", "reconcile"],
  ])("says in one line what `%s` meant", (line, meant) => {
    const text = explained(usageErrorOf(line));
    expect(text).toContain(`Did you mean "${meant}"`);
    expect(text).not.toContain("\n");
  });

  it("shows the help of one command", () => {
    const parsed = parse("venue pause --help");
    expect(parsed.help && parsed.text).toContain(
      "open requests are cancelled and their quotes rejected",
    );
    expect(parsed.help && parsed.text).not.toContain("user create");
  });

  it("lists every command", () => {
    for (const { words } of COMMANDS) expect(usage()).toContain(words.join(" "));
  });
});

describe("formatResult", () => {
  it("formats lists as tables and records as lines", () => {
    expect(
      formatResult([
        { a: 1, bb: null },
        { a: "22", bb: true },
      ]),
    ).toBe("  a   bb\n  1   -\n  22  true");
    expect(formatResult({ user_id: "u", paused: false })).toBe("user_id  u\npaused   false");
    expect(formatResult([])).toBe("  (none)");
    expect(formatResult({ email: "nοrm@x.test", label: "\u202eab\u001b[2J ü" })).toBe(
      "email  n\\u{3bf}rm@x.test\nlabel  \\u{202e}ab\\u{1b}[2J ü",
    );
    expect(formatResult(null)).toBe("done");
  });

  it("formats amounts and prices as decimals with their unit", () => {
    const record = {
      venue_id: "venue_one",
      asset_id: "0xab",
      amount: "0x3b9aca00",
      price: 650_000,
      usdc_amount: "0x26be3680",
      reserve: { venue_id: null, asset_id: null, amount: "0x1" },
    };
    expect(formatResult([record])).toBe(
      [
        "  venue_id   asset_id  amount        price  usdc_amount  reserve",
        "  venue_one  0xab      1 000 tokens  0.65   650 USDC     0.000001 USDC",
      ].join("\n"),
    );
    expect(formatResult({ balance: "0x174876e8ff", asset_id: null })).toContain(
      "100 000.000255 USDC",
    );
    expect(formatResult({ losses: "-0x1e8480" })).toBe("losses  -2 USDC");
    expect(formatResult({ promised: "0x0" })).toBe("promised  0 USDC");
    // An asset id is no amount, and neither is a number that no balance can hold.
    expect(formatResult({ asset_id: "0x10", amount: `0x${"f".repeat(64)}` })).toContain("0xfff");
    expect(formatResult({ asset_id: "0x10" })).toBe("asset_id  0x10");
  });

  it("shortens ids, instants and empty columns of tables, unless they are wide", () => {
    const user_id = "0190a0b0-0000-7000-8000-0000000094b0";
    const row = { user_id, frozen_at: null, created_at: "2026-11-22T07:41:41.123Z" };
    expect(formatResult([row])).toBe(
      "  user_id        created_at\n  0190a0b0…94b0  2026-11-22 07:41:41",
    );
    const wide = formatResult([row], { wide: true });
    for (const text of [user_id, "frozen_at", "41.123Z"]) expect(wide).toContain(text);
    expect(formatResult({ user_id })).toBe(`user_id  ${user_id}`);
    const address = "0x127F16ABaDfB790463f69773e3c85343f4fB25B0";
    expect(formatResult([{ address }])).toBe("  address\n  0x127F16…25B0");
    expect(formatResult([{ address }], { wide: true })).toContain(address);
  });

  it("formats a single record as lines if a table would cut it", () => {
    const cause =
      "gas_low: the operator account 0xab has 0 wei; the next 100 payments may cost 7 wei";
    const record = { status: "queued", cause };
    expect(formatResult([record])).toBe(`status  queued\ncause   ${cause}`);
    expect(formatResult([record, record])).toContain("…");
  });

  it("cuts no command of a list", () => {
    const next = `npm run operator -- withdrawals retry --id ${"0".repeat(36)} --env production`;
    expect(formatResult([{ next }, { next: null }])).toBe(`next  ${next}\n\nnext  -`);
  });

  it("formats lists and records within a record as text, not as JSON", () => {
    const row = {
      chain: "local",
      withdrawals: { queued: 0, submitted: 2 },
      limits: { venues: null, max_usdc_per_trade: "0xf4240" },
      scopes: ["read", "trade"],
    };
    expect(formatResult([row])).toBe(
      [
        "  chain  withdrawals            limits                               scopes",
        "  local  queued 0, submitted 2  venues -, max_usdc_per_trade 1 USDC  read, trade",
      ].join("\n"),
    );
    expect(formatResult({ ok: true, differences: [] })).toBe(
      "ok           true\ndifferences  none",
    );
  });

  it("formats lists in records as tables", () => {
    expect(formatResult({ ok: true, rows: [{ x: 1 }] })).toBe("ok    true\nrows:\n  x\n  1");
  });

  it("prints tables of 100 columns, and cuts no digit of an amount", () => {
    const row = {
      withdrawal_id: "0190a0b0-0000-7000-8000-0000000094b0",
      email: `${"long".repeat(20)}@example.test`,
      status: "awaiting_approval",
      venue_id: null,
      asset_id: null,
      amount: "0x7fffffffffffffff",
      to_address: `0x${"ab".repeat(20)}`,
      transaction_hash: `0x${"cd".repeat(32)}`,
      created_at: "2026-11-22T07:41:41.123Z",
    };
    const text = formatResult([row, row]);
    expect(Math.max(...text.split("\n").map((line) => line.length))).toBeLessThanOrEqual(100);
    expect(text).toContain("9 223 372 036 854.775807 USDC");
    expect(text).toContain("0190a0b0…94b0");
    expect(text).toMatch(/--wide: .*created_at/);
    expect(formatResult([row, row], { wide: true })).toContain(row.email);
  });
});
