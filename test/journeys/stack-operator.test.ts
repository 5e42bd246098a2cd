import { describe, expect, it } from "vitest";
import { COMMANDS, UsageError, parseCommand, usage } from "../../scripts/operator/commands.ts";
import { readable } from "../../scripts/operator/print.ts";

const parse = (line: string) => parseCommand(line.split(" "), "me");

describe("the operator's command line", () => {
  it("sends words, flags and the operator's name", () => {
    expect(parse("api-key create --email a@b.c --scopes read,withdraw --label bot --json")).toEqual({
      help: false,
      remote: false,
      json: true,
      dir: undefined,
      command: {
        command: ["api-key", "create"],
        options: { email: "a@b.c", scopes: "read,withdraw", label: "bot" },
        operator: "me",
      },
    });
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
  ])("refuses `%s`", (line) => {
    expect(() => parse(line)).toThrow(UsageError);
  });

  it("explains every command", () => {
    for (const { words } of COMMANDS) expect(usage()).toContain(words.join(" "));
  });
});

describe("readable", () => {
  it("writes lists as tables and records as lines", () => {
    expect(
      readable([
        { a: 1, bb: null },
        { a: "22", bb: true },
      ]),
    ).toBe("  a   bb\n  1   -\n  22  true");
    expect(readable({ user_id: "u", paused: false })).toBe("user_id  u\npaused   false");
    expect(readable([])).toBe("  (none)");
    expect(readable(null)).toBe("done");
  });

  it("writes lists inside of records as tables too", () => {
    expect(readable({ ok: true, rows: [{ x: 1 }] })).toBe("ok    true\nrows:\n  x\n  1");
  });
});
