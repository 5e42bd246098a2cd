/** The tool as a process, against an entrypoint that answers what a test tells it to. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";

type Order = { command: string[]; options: Record<string, string> };

let server: Server;
let dir: string;
let answer: (order: Order) => unknown = () => ({ ok: true, result: null });
let delayMs = 0;
let last: Order | undefined;

beforeAll(async () => {
  server = createServer((request, response) => {
    void read(request).then(async (order) => {
      last = order;
      await new Promise((resolve) => setTimeout(resolve, delayMs));
      response.end(JSON.stringify(answer(order)));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  dir = mkdtempSync(join(tmpdir(), "operator-tool-"));
  const { port } = server.address() as AddressInfo;
  writeFileSync(join(dir, "operator.json"), JSON.stringify({ url: `http://127.0.0.1:${port}` }));
});

afterAll(() => {
  server.close();
  rmSync(dir, { recursive: true, force: true });
});

async function read(request: IncomingMessage): Promise<Order> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  return JSON.parse(text) as Order;
}

type Run = { code: number | null; out: string; err: string };

function tool(line: string, env: Record<string, string> = {}): Promise<Run> {
  const args = ["scripts/operator.ts", ...line.split(" ")];
  if (env["RFQ_DIR"] === undefined) args.push("--dir", dir);
  const child = spawn(process.execPath, args, {
    env: { ...process.env, NO_COLOR: "1", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [out, err] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (err += chunk.toString()));
  return new Promise((resolve) => child.once("close", (code) => resolve({ code, out, err })));
}

/** Throws when stdout holds anything beside one JSON object. */
function objectOf({ out }: Run): {
  ok: boolean;
  result?: Record<string, unknown>;
  problem?: { code: string; detail: string };
} {
  expect(out.trimEnd().split("\n")).toHaveLength(1);
  return JSON.parse(out) as ReturnType<typeof objectOf>;
}

const refuses = (code: string, detail: string) => () => ({ ok: false, problem: { code, detail } });

it.each(["user create --email a@b.example", "user set-password --user-id 1"])(
  "`%s` shows the password that it made, as text and as JSON",
  async (line) => {
    answer = () => ({ ok: true, result: { user_id: "u" } });
    const json = objectOf(await tool(`${line} --json`));
    expect(last?.options["password"]).toMatch(/^[\w-]{24}$/);
    expect(json).toEqual({
      ok: true,
      result: { user_id: "u", password: last?.options["password"] },
    });
    const text = await tool(line);
    expect(text.out).toContain(last?.options["password"]);
  },
);

it.each([
  ["nonsense", "usage"],
  ["user freeze", "usage"],
  ["reconcile --unknown", "usage"],
])("wrong usage is one JSON object with --json (`%s`)", async (line, code) => {
  const run = await tool(`${line} --json`);
  expect(run.code).toBe(2);
  expect(objectOf(run)).toMatchObject({ ok: false, problem: { code } });
});

it("wrong usage shows the command's own help, and the message last", async () => {
  const run = await tool("venue pause");
  expect(run).toMatchObject({ code: 2, out: "" });
  expect(run.err).toContain("their quotes rejected");
  expect(run.err).not.toContain("user create");
  expect(run.err.trimEnd().split("\n").at(-1)).toBe("venue pause needs <venue>");
});

it("a value that the service refuses is wrong usage; what it will not do is not", async () => {
  answer = refuses("invalid_request", "--limit: must be an integer from 1 to 500");
  const bad = await tool("audit list --limit 1.5");
  expect(bad.code).toBe(2);
  expect(bad.err).toContain("audit list [--limit <n>]");
  expect(bad.err.trimEnd().split("\n").at(-1)).toBe(
    "invalid_request: --limit: must be an integer from 1 to 500",
  );
  answer = refuses("user_unknown", "no user has this email");
  expect(await tool("user freeze --email a@b.example")).toEqual({
    code: 1,
    out: "",
    err: "user_unknown: no user has this email\n",
  });
});

it("a reconciliation that could not ask a chain says so, and ends with 1", async () => {
  answer = () => ({
    ok: true,
    result: {
      ok: false,
      checked_at: "t",
      block: { local: null, other: 7 },
      differences: [],
      complete: false,
    },
  });
  const run = await tool("reconcile --json");
  expect(run.code).toBe(1);
  expect(run.err).toBe("local could not be asked: what it holds was not compared\n");
  expect(objectOf(run).result).toMatchObject({ ok: false, complete: false });
});

it("a command that takes longer than two seconds says that it is at work, on stderr", async () => {
  answer = () => ({ ok: true, result: { ok: true } });
  delayMs = 2_600;
  try {
    const run = await tool("reconcile --json");
    expect(objectOf(run)).toMatchObject({ ok: true });
    expect(run.err).toBe("reconcile: still at work after 2 s\n");
  } finally {
    delayMs = 0;
  }
});

it("what wrangler says on the way to the deployed service goes to stderr", async () => {
  // Without a login it ends before it has asked anyone, but not before it has said something.
  const run = await tool("chain status --remote --json", {
    CLOUDFLARE_API_TOKEN: "",
    HOME: dir,
    XDG_CONFIG_HOME: dir,
  });
  expect(run.code).toBe(3);
  expect(objectOf(run)).toMatchObject({ ok: false, problem: { code: "not_reachable" } });
  expect(run.err).not.toBe("");
});

it("finds the stack of RFQ_DIR, and --dir takes precedence", async () => {
  answer = () => ({ ok: true, result: { found: true } });
  const nowhere = join(dir, "nowhere");
  expect((await tool("audit list --json", { RFQ_DIR: dir })).code).toBe(0);
  expect((await tool(`audit list --dir ${dir} --json`, { RFQ_DIR: nowhere })).code).toBe(0);
  const lost = await tool("audit list --json", { RFQ_DIR: nowhere });
  expect(lost.code).toBe(3);
  expect(objectOf(lost).problem?.detail).toContain(join(nowhere, "operator.json"));
});
