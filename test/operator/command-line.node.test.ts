import { describe, expect, it } from "vitest";
import {
  COMMANDS,
  UsageError,
  parseCommand,
  usage,
  usageAfter,
} from "../../scripts/operator/commands.ts";
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

describe("the operator's command line", () => {
  it("sends words, flags and the name of the operator", () => {
    expect(parse("api-key create --email a@b.c --scopes read,withdraw --label bot --json")).toEqual(
      {
        help: false,
        remote: false,
        json: true,
        dir: undefined,
        command: {
          command: ["api-key", "create"],
          options: { email: "a@b.c", scopes: "read,withdraw", label: "bot" },
          operator: undefined,
        },
      },
    );
    expect(parse("venue pause venue_one --remote --operator ada")).toMatchObject({
      remote: true,
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
    ["user rename", ["user create", "user set-password"], ["venue pause"]],
    ["nonsense", ["user create", "venue pause"], []],
  ])("shows the help of the intended command for `%s`", (line, shown, hidden) => {
    const help = usageAfter(usageErrorOf(line));
    for (const command of shown) expect(help).toContain(command);
    for (const command of hidden) expect(help).not.toContain(command);
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
    expect(formatResult(null)).toBe("done");
  });

  it("formats lists in records as tables", () => {
    expect(formatResult({ ok: true, rows: [{ x: 1 }] })).toBe("ok    true\nrows:\n  x\n  1");
  });
});
