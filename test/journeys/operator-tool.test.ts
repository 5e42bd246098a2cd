/** Runs the tool as a process against a fake entrypoint. */
import { runChild } from "../../scripts/stack/run-child.ts";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  newPrivateKey,
  type OperatorKey,
  publicHalf,
} from "../../scripts/operator/operator-key.ts";
import { itInRelease } from "../support/depth.ts";

type CommandRequest = { command: string[]; options: Record<string, string> };

let server: Server;
let dir: string;
let respond: (request: CommandRequest) => unknown = () => ({ ok: true, result: null });
let delayMs = 0;
let last: CommandRequest | undefined;

beforeAll(async () => {
  server = createServer((request, response) => {
    void read(request).then(async (command) => {
      last = command;
      await new Promise((resolve) => setTimeout(resolve, delayMs));
      response.end(JSON.stringify(respond(command)));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  dir = mkdtempSync(join(tmpdir(), "operator-tool-"));
  const { port } = server.address() as AddressInfo;
  const keys = [{ name: "local", deployment: "test", private_key: newPrivateKey() }];
  const file = { url: `http://127.0.0.1:${port}`, keys };
  writeFileSync(join(dir, "operator.json"), JSON.stringify(file));
});

afterAll(() => {
  server.close();
  rmSync(dir, { recursive: true, force: true });
});

async function read(request: IncomingMessage): Promise<CommandRequest> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  const { order } = JSON.parse(text) as { order: string };
  return JSON.parse(order) as CommandRequest;
}

type Finished = { code: number | null; out: string; err: string };

async function tool(line: string, env: Record<string, string> = {}): Promise<Finished> {
  const args = ["scripts/operator.ts", ...line.split(" ")];
  if (env["RFQ_DIR"] === undefined) args.push("--dir", dir);
  const { code, stdout, stderr } = await runChild(process.execPath, args, {
    env: { ...process.env, NO_COLOR: "1", ...env },
  });
  return { code, out: stdout, err: stderr };
}

/** Throws if stdout contains anything other than one JSON object. */
function objectOf({ out }: Finished): {
  ok: boolean;
  result?: Record<string, unknown>;
  problem?: { code: string; detail: string };
} {
  expect(out.trimEnd().split("\n")).toHaveLength(1);
  return JSON.parse(out) as ReturnType<typeof objectOf>;
}

it("sends a rescue only to the local stack", async () => {
  const line = "withdrawals rescue --token native --to 0x1 --amount 1 --send --env acme --json";
  const refused = await tool(line);
  expect(refused.code).toBe(2);
  expect(objectOf(refused).problem).toMatchObject({ code: "usage" });
});

const rejects = (code: string, detail: string) => () => ({ ok: false, problem: { code, detail } });

it.each(["user create --email a@b.example", "user set-password --user-id 1"])(
  "`%s` shows the generated password as text and JSON",
  async (line) => {
    respond = () => ({ ok: true, result: { user_id: "u" } });
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
])("prints usage errors as one JSON object with --json (`%s`)", async (line, code) => {
  const result = await tool(`${line} --json`);
  expect(result.code).toBe(2);
  expect(objectOf(result)).toMatchObject({ ok: false, problem: { code } });
});

it("prints the command's help before a usage error", async () => {
  const result = await tool("venue pause");
  expect(result).toMatchObject({ code: 2, out: "" });
  expect(result.err).toContain("their quotes rejected");
  expect(result.err).not.toContain("user create");
  expect(result.err.trimEnd().split("\n").at(-1)).toBe("venue pause requires <venue>");
});

it("exits with 2 for invalid values and 1 for rejections", async () => {
  respond = rejects("invalid_request", "--limit: must be an integer from 1 to 500");
  const bad = await tool("audit list --limit 1.5");
  expect(bad.code).toBe(2);
  expect(bad.err).toContain("audit list [--kind <kind>]");
  expect(bad.err.trimEnd().split("\n").at(-1)).toBe(
    "invalid_request: --limit: must be an integer from 1 to 500",
  );
  respond = rejects("user_unknown", "no user has the email address");
  expect(await tool("user freeze --email a@b.example")).toEqual({
    code: 1,
    out: "",
    err: "user_unknown: no user has the email address\n",
  });
});

it("warns about unread chains and exits with 1", async () => {
  respond = () => ({
    ok: true,
    result: {
      ok: false,
      checked_at: "t",
      block: { local: null, other: 7 },
      differences: [],
      complete: false,
    },
  });
  const result = await tool("reconcile --json");
  expect(result.code).toBe(1);
  expect(result.err).toBe("local could not be read, so its holdings were not compared\n");
  expect(objectOf(result).result).toMatchObject({ ok: false, complete: false });
});

it("prints all pages of a list as CSV that a spreadsheet does not run", async () => {
  const rows = [
    { email: "a@b.example", amount: "0x1e8480", asset_id: null, label: "=1+1" },
    { email: "-2", amount: "-0x2", asset_id: "0x1", label: 'say "a, b"' },
  ];
  const asked: unknown[] = [];
  respond = ({ options }) => {
    asked.push(options);
    const at = Number(options["cursor"] ?? 0);
    return { ok: true, result: [rows[at]], next_cursor: at === 0 ? "1" : null };
  };
  const { out, code } = await tool("withdrawals list --status queued --csv");
  expect(asked).toEqual([
    { limit: "500", status: "queued" },
    { limit: "500", status: "queued", cursor: "1" },
  ]);
  expect({ code, lines: out.trimEnd().split("\r\n") }).toEqual({
    code: 0,
    lines: [
      "email,amount,asset_id,label",
      "a@b.example,2000000,,'=1+1",
      '-2,-2,0x1,"say ""a, b"""',
    ],
  });
  const page = await tool("withdrawals list --limit 1");
  expect(page.err).toContain("--cursor 1");
  respond = () => ({ ok: true, result: {} });
  expect((await tool("storage --csv")).code).toBe(2);
});

it("exports all of a user, which only the operator reads", async () => {
  respond = ({ command, options }) => {
    const isList = command[0] !== "user";
    const more = isList && options["cursor"] === undefined;
    const result = isList ? [{ of: command.join(" ") }] : { email: options["email"] };
    return { ok: true, result, next_cursor: more ? "next" : null };
  };
  const out = join(dir, "export");
  expect((await tool(`user export --email a@b.example --out ${out}`)).code).toBe(0);
  const written = (name: string): unknown => JSON.parse(readFileSync(join(out, name), "utf8"));
  expect(readdirSync(out).toSorted()).toEqual([
    "audit-list.json",
    "deposits-list.json",
    "history-deposit-addresses.json",
    "history-matches.json",
    "history-quotes.json",
    "history-requests.json",
    "history-withdrawal-addresses.json",
    "ledger.json",
    "quotes-list.json",
    "requests-list.json",
    "user-show.json",
    "withdrawals-list.json",
  ]);
  expect(written("user-show.json")).toEqual({ email: "a@b.example" });
  expect(written("ledger.json")).toEqual([{ of: "ledger" }, { of: "ledger" }]);
  expect([out, join(out, "ledger.json")].map((path) => statSync(path).mode & 0o077)).toEqual([
    0, 0,
  ]);
  respond = rejects("user_unknown", "no user has the email address");
  expect((await tool(`user export --email a@b.example --out ${out}-2`)).code).toBe(1);
});

it("verifies a journal with as many orders as it takes, and says how far it is", async () => {
  const account = "aa/available/usdc";
  const moved = (before: string, after: string) => [{ account, before, after }];
  const times = { requestAt: null, quoteAt: null, matchAt: null };
  const ends = { first: 1, last: { epoch: 1, number: 1 }, ...times };
  const parts: Record<string, (options: Record<string, string>) => unknown> = {
    seals: ({ from }) => {
      const number = Number(from);
      const head = { epoch: 1, number, sha256: "ab", transfers: 2, bytes: 3 };
      const first = {
        moved: moved("0", "7"),
        owners: [{ owner: "aa", previous: null, ends }],
      };
      const content = number === 1 ? first : { moved: [], owners: [] };
      return { seals: [{ head, content, discrepancies: [] }], more: number < 3, missing: [] };
    },
    owners: ({ after }) => ({
      seal: 3,
      owners: after === undefined ? [{ owner: "aa", ends }] : [],
    }),
    accounts: ({ after }) => ({
      seal: 3,
      accounts: after === "0" ? [{ id: 5, account, sealed: held }] : [],
    }),
  };
  let held = "7";
  respond = ({ options }) => ({ ok: true, result: parts[options["part"] ?? ""]?.(options) });
  delayMs = 500;
  try {
    const result = await tool("journal verify --json");
    expect(objectOf(result).result).toEqual({
      ok: true,
      verified: 3,
      transfers: 6,
      bytes: 9,
      accounts: 1,
      unknown: 0,
      owners: 1,
      head: { epoch: 1, number: 3, sha256: "ab" },
      discrepancies: [],
    });
    expect(result.err).toMatch(/^journal verify: still running after 2 s, at \w+ \d\n$/);
  } finally {
    delayMs = 0;
  }
  held = "8";
  const wrong = await tool("journal verify --json");
  expect(wrong.code).toBe(1);
  expect(objectOf(wrong).result).toMatchObject({ ok: false, discrepancies: [{ kind: "balance" }] });
  respond = rejects("order_signature_invalid", "no");
  expect(await tool("journal verify")).toMatchObject({ code: 1 });
  expect((await tool("journal verify --from 0")).code).toBe(2);
});

it("makes a key of mode 600 once, and prints only its public half", async () => {
  const made = await tool("key create --name ada --deployment acme --json", {
    XDG_CONFIG_HOME: dir,
  });
  const { file, public_key } = objectOf(made).result ?? {};
  const key = JSON.parse(readFileSync(String(file), "utf8")) as OperatorKey;
  expect(statSync(String(file)).mode & 0o777).toBe(0o600);
  expect(publicHalf(key.private_key)).toBe(public_key);
  expect(made.out + made.err).not.toContain(key.private_key);
  const again = await tool("key create --name ada --deployment acme --json", {
    XDG_CONFIG_HOME: dir,
  });
  expect(again.code).toBe(3);
  expect(objectOf(again).problem?.detail).toContain("exists");
});

it("approves by the hash of the proposal that it has shown", async () => {
  const content = '{"proposal_id":"p","command":["user","set-password"]}';
  respond = ({ command }) => ({
    ok: true,
    result: command[0] === "approvals" ? [{ proposal_id: "p", content }] : { user_id: "u" },
  });
  const approved = await tool("approve --id p --yes --json");
  expect(last?.options).toMatchObject({
    id: "p",
    sha256: createHash("sha256").update(content).digest("hex"),
  });
  expect(approved.err).toContain(content);
  expect(objectOf(approved).result?.["password"]).toBe(last?.options["password"]);
});

it("shows no password for a proposal", async () => {
  respond = () => ({ ok: true, result: { proposal_id: "p" } });
  const proposed = await tool("user set-password --user-id 1 --json");
  expect(objectOf(proposed).result).toEqual({ proposal_id: "p" });
});

it("names the file of a deployment that this machine does not know", async () => {
  await tool("key create --name remote --deployment acme --json", { XDG_CONFIG_HOME: dir });
  const result = await tool("chain status --env acme --operator remote --json", {
    CLOUDFLARE_API_TOKEN: "",
    HOME: dir,
    XDG_CONFIG_HOME: dir,
  });
  expect(result.code).toBe(3);
  expect(objectOf(result)).toMatchObject({ ok: false, problem: { code: "not_reachable" } });
  expect(objectOf(result).problem?.detail).toContain("deploy.acme.json is missing");
});

it("uses RFQ_DIR unless --dir is given", async () => {
  respond = () => ({ ok: true, result: { found: true } });
  const nowhere = join(dir, "nowhere");
  expect((await tool("audit list --json", { RFQ_DIR: dir })).code).toBe(0);
  expect((await tool(`audit list --dir ${dir} --json`, { RFQ_DIR: nowhere })).code).toBe(0);
  const lost = await tool("audit list --json", { RFQ_DIR: nowhere });
  expect(lost.code).toBe(3);
  expect(objectOf(lost).problem?.detail).toContain(join(nowhere, "operator.json"));
});

it("verifies the whole audit log by calls that continue each other", async () => {
  const part = { ok: true, verdict: "ok", discrepancies: [], unsealed: 0, restores: [] };
  const wrong = [{ auditSeq: 3, kind: "changed" }];
  const parts: Record<string, unknown>[] = [
    { ...part, verified: 10, next: "a" },
    { ...part, ok: false, verdict: "forged", discrepancies: wrong, verified: 20, next: "b" },
    { ...part, ok: false, verdict: "anchor_missing", verified: 5, unsealed: 2, next: null },
  ];
  const asked: (string | undefined)[] = [];
  respond = ({ options }) => {
    asked.push(options["continue"]);
    return { ok: true, result: parts[asked.length - 1] };
  };
  const { code, out } = await tool("audit verify --known-restores 1 --json");
  expect(asked).toEqual([undefined, "a", "b"]);
  expect(last?.options).toEqual({ "known-restores": "1", continue: "b" });
  expect(code).toBe(1);
  const { result } = JSON.parse(out) as { result: unknown };
  expect(result).toEqual({
    ok: false,
    verdict: "forged",
    verified: 35,
    unsealed: 2,
    discrepancies: wrong,
    restores: [],
  });
});

itInRelease("shows how far a verification that takes long has come", async () => {
  let calls = 0;
  respond = () => {
    const next = ++calls < 3 ? "more" : null;
    return { ok: true, result: { ok: true, verdict: "ok", verified: 7, discrepancies: [], next } };
  };
  delayMs = 1_500;
  const { code, err } = await tool("audit verify");
  delayMs = 0;
  expect(code).toBe(0);
  expect(err).toMatch(/audit verify: still running after 2 s, 7 verified/);
});
