/**
 * `npm run soak -- verbs [--minutes N] [--seed S]`: every operation and socket command of the
 * published descriptions, with ids, passwords and codes that exist, in valid, nearly valid and
 * broken cases. Nothing else fails meanwhile, so every 5xx is a finding.
 *
 * Ends with 1 after a 5xx, a response outside the descriptions, a command without a reply, an
 * operation that never succeeded, or a difference in the books or the audit chain.
 */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { positive, readArguments } from "../../stack/arguments.ts";
import { setTimeout as sleep } from "node:timers/promises";
import { signedHeaders } from "../../../packages/client/src/index.ts";
import { readRestDescription, readStreamDescription } from "../../openapi/conformance.ts";
import { Dice } from "../../actors/dice.ts";
import { ROOT } from "../../stack/bundle.ts";
import { freePort } from "../../stack/ports.ts";
import { type Stack, startStack } from "../../stack/start-stack.ts";
import { type Caller, Ids } from "../../actors/callers.ts";
import { type Case, drawKind, type Kind, makeCase, makeFrame } from "./cases.ts";
import { learnSecrets } from "./learn.ts";
import { openingMoves } from "./opening.ts";
import { type Operation, readOperations, readSocketCommands } from "./operations.ts";
import {
  addKey,
  differences,
  logInAgain,
  makeCallers,
  unfreeze,
} from "../../actors/caller-accounts.ts";
import { CheckedSocket } from "./sockets.ts";
import { Tally } from "./tally.ts";
import type { Scene } from "./values.ts";

const USAGE = "npm run soak -- verbs [--minutes N] [--seed S]";
const CALLERS = 6;
const HANDS = 10;
/** Hashes of passwords wait for their turn. */
const TIMEOUT_MS = 60_000;
const SOCKETS_PER_CALLER = 3;
/** How often an operation is drawn; 1 if it is not listed. */
const WEIGHTS: Readonly<Record<string, number>> = {
  "POST /rfq/request": 8,
  "POST /rfq/quote": 8,
  "POST /rfq/quotes": 5,
  "POST /rfq/accept": 8,
  "GET /rfq/quote": 4,
  "POST /custody/withdraw": 3,
  "POST /account/rotate-webhook-secret": 2,
  // They end what a caller is.
  "POST /auth/freeze": 0.2,
  "DELETE /auth/sessions": 0.3,
  "DELETE /auth/api-keys": 0.5,
  "DELETE /account/webhook": 0.3,
  // They hash a password, which takes a second of the service.
  "POST /auth/register": 0.2,
  "POST /auth/login": 0.3,
  "POST /auth/unfreeze": 0.3,
  "POST /auth/policy": 0.5,
  "POST /auth/change-password": 0.3,
  "POST /auth/totp": 0.4,
  "POST /auth/remove-totp": 0.3,
  "POST /custody/approve-withdrawal": 0.4,
  "POST /custody/create-withdrawal-address": 0.5,
};
/** Of operations without fields, of which a few calls suffice. */
const STATELESS_WEIGHT = 0.2;
/** Empty on the local stack, whose settings have no SECURITY_TXT. */
const NEVER_SUCCEED = new Set(["GET /.well-known/security.txt"]);

export async function soakVerbs(args: readonly string[]): Promise<number> {
  const options = {
    minutes: { type: "string", default: "3" },
    seed: { type: "string", default: randomBytes(4).toString("hex") },
  } as const;
  const values = readArguments(USAGE, options, args);
  const minutes = positive(values.minutes, "minutes", USAGE);
  console.log(`soak verbs: ${minutes} minutes with --seed ${values.seed}`);
  const dir = join(ROOT, ".stack", "soak-verbs");
  const stack = await startStack({
    port: await freePort(),
    rpcPort: await freePort(),
    dir,
    vars: { RATE_LIMITS: "off", AUTH_FRESH_SESSION_SECS: "604800" },
  });
  try {
    const soak = new VerbSoak(stack, values.seed);
    await soak.run(minutes * 60_000);
    const findings = [...soak.tally.findings, ...(await differences(stack))];
    console.log(soak.tally.report());
    for (const finding of findings) console.error(`FAULT  ${finding}`);
    if (findings.length > 0) console.error(`The service's log: ${stack.workerLog}`);
    return findings.length === 0 ? 0 : 1;
  } finally {
    await stack.stop();
  }
}

class VerbSoak {
  readonly tally = new Tally();
  readonly #stack: Stack;
  readonly #seed: string;
  readonly #operations = readOperations();
  readonly #commands = readSocketCommands();
  readonly #restErrors = readRestDescription();
  readonly #streams = readStreamDescription();
  readonly #ids = new Ids();
  readonly #sockets = new Map<Caller, CheckedSocket[]>();
  readonly #restoring = new Set<Caller>();
  #callers: Caller[] = [];

  constructor(stack: Stack, seed: string) {
    this.#stack = stack;
    this.#seed = seed;
  }

  async run(ms: number): Promise<void> {
    const dice = new Dice(this.#seed);
    const [careful, ...callers] = await makeCallers(this.#stack, dice, CALLERS + 1);
    if (careful === undefined) throw new Error("no callers");
    this.#callers = callers;
    await openingMoves({
      caller: careful,
      call: (name, fields) => this.#callWith(careful, name, fields),
      wait: sleep,
    });
    const end = Date.now() + ms;
    const hands = Array.from({ length: HANDS }, async (_, hand) => {
      const own = new Dice(`${this.#seed}/hand-${hand}`);
      while (Date.now() < end) await this.#move(own);
    });
    await Promise.all(hands);
    for (const sockets of this.#sockets.values()) for (const socket of sockets) socket.close();
    const names = [
      ...this.#operations.map(({ name }) => name),
      ...this.#commands.map(({ op }) => `socket ${op}`),
    ];
    for (const name of names)
      if (!this.tally.succeeded(name) && !NEVER_SUCCEED.has(name))
        this.tally.find(`${name} never succeeded`);
  }

  async #move(dice: Dice): Promise<void> {
    const caller = dice.pick(this.#callers);
    if (dice.chance(0.25)) return this.#command(dice, caller);
    const operation = this.#draw(dice);
    const kind = drawKind(dice);
    const scene: Scene = { dice, caller, ids: this.#ids, operation: operation.name };
    if (operation.isStream && kind === "valid" && (await this.#open(scene, operation))) return;
    await this.#send(dice, caller, makeCase(scene, operation, kind));
  }

  #draw(dice: Dice): Operation {
    const drawn = dice.weighted(
      Object.fromEntries(
        this.#operations.map(({ name, fields }) => [
          name,
          WEIGHTS[name] ?? (fields.length === 0 ? STATELESS_WEIGHT : 1),
        ]),
      ),
    );
    return this.#operations.find(({ name }) => name === drawn) ?? dice.pick(this.#operations);
  }

  /** A call of the soak's own, which must succeed. */
  async #callWith(caller: Caller, name: string, fields: object): Promise<unknown> {
    const operation = this.#operations.find((each) => each.name === name);
    if (operation === undefined) throw new Error(`${name} is not described`);
    const inUrl = new URLSearchParams(fields as Record<string, string>).toString();
    const { status, body } = await this.#send(new Dice(name), caller, {
      kind: "valid",
      operation,
      target: operation.hasBody || inUrl === "" ? operation.path : `${operation.path}?${inUrl}`,
      headers: {},
      body: operation.hasBody ? JSON.stringify(fields) : undefined,
      credential:
        operation.credential === "any"
          ? "session"
          : operation.credential === "public"
            ? "none"
            : operation.credential,
    });
    if (status >= 300) this.tally.find(`${name} of the opening: ${JSON.stringify(body)}`);
    return body;
  }

  async #send(
    dice: Dice,
    caller: Caller,
    sent: Case,
  ): Promise<{ readonly status: number; readonly body: unknown }> {
    const { operation, kind } = sent;
    const { method, path, name } = operation;
    const url = new URL(sent.target, this.#stack.directUrl);
    const about = `${name} (${kind}) ${url.search.slice(0, 300)} ${(sent.body ?? "").slice(0, 400)}`;
    const headers: Record<string, string> = {
      "cf-connecting-ip": kind === "valid" ? caller.ip : `10.9.${dice.between(0, 255)}.9`,
      ...(sent.body === undefined ? {} : { "content-type": "application/json" }),
      ...sent.headers,
      ...(await credentialHeaders(dice, caller, sent, url)),
    };
    const init = { method, headers, redirect: "manual" as const };
    let response: Response;
    let text: string;
    try {
      response = await fetch(url, {
        ...init,
        ...(sent.body === undefined ? {} : { body: sent.body }),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      text = await response.text();
    } catch (error) {
      this.tally.find(`${about}: ${String(error)}`);
      return { status: 0, body: null };
    }
    const type = (response.headers.get("content-type") ?? "").split(";")[0] ?? "";
    const body: unknown = type.endsWith("json") ? JSON.parse(text) : text;
    const { status } = response;
    if (status >= 500) this.tally.find(`${about}: ${status} ${text.slice(0, 300)}`);
    const errors = this.#restErrors({ method, path, status, type, body });
    if (errors.length > 0) this.tally.find(`${about}: ${errors.slice(0, 3).join("; ")}`);
    this.tally.count(name, kind, { ok: status < 300, code: codeOf(body) ?? String(status) });
    if (status < 300) {
      this.#ids.learn(caller, body);
      learnSecrets(caller, { name, sent: sent.body, body });
    } else if (kind === "valid") await this.#restore(dice, caller, codeOf(body));
    return { status, body };
  }

  /** A caller who has ended their credentials gets new ones, sooner or later. */
  async #restore(dice: Dice, caller: Caller, code: string | undefined): Promise<void> {
    const frozen = code === "account_frozen";
    const noSession = code === "session_invalid" || code === "session_expired";
    const noKey = code === "api_key_revoked" || code === "api_key_expired";
    if (!(frozen || noSession || noKey) || this.#restoring.has(caller)) return;
    if (!dice.chance(frozen ? 0.2 : 0.7)) return;
    this.#restoring.add(caller);
    try {
      if (frozen) await unfreeze(this.#stack, caller);
      if (noKey) await addKey(this.#stack, caller);
      if (noSession) {
        await unfreeze(this.#stack, caller);
        await logInAgain(this.#stack, caller);
      }
    } catch (error) {
      // Another hand may have changed the password meanwhile. The keys of the caller remain.
      this.tally.note(String(error).slice(0, 200));
    } finally {
      this.#restoring.delete(caller);
    }
  }

  /** Opens a socket with a fresh ticket. False if there is none to be had. */
  async #open(scene: Scene, operation: Operation): Promise<boolean> {
    const { caller, dice } = scene;
    const signed = this.#operations.find(({ name }) => name === "POST /auth/ws-ticket/signed");
    if (signed === undefined) return false;
    const { status, body } = await this.#send(dice, caller, makeCase(scene, signed, "valid"));
    if (status !== 201) return false;
    const query = new URL(makeCase(scene, operation, "valid").target, this.#stack.baseUrl);
    // Safe cast: the published response.
    query.searchParams.set("ticket", (body as { ticket: string }).ticket);
    query.protocol = "ws:";
    const socket = await CheckedSocket.open(query.href, this.#streams, {
      message: (data) => this.#ids.learn(caller, data),
      finding: (text) => this.tally.find(text),
    });
    this.tally.count(operation.name, "valid", { ok: socket !== undefined, code: "upgrade" });
    if (socket === undefined) return true;
    const open = (this.#sockets.get(caller) ?? []).filter(({ closed }) => !closed);
    for (const old of open.slice(0, -SOCKETS_PER_CALLER)) old.close();
    this.#sockets.set(caller, [...open.slice(-SOCKETS_PER_CALLER), socket]);
    return true;
  }

  async #command(dice: Dice, caller: Caller): Promise<void> {
    const open = (this.#sockets.get(caller) ?? []).filter(({ closed }) => !closed);
    const [socket] = open.length === 0 ? [] : [dice.pick(open)];
    const stream = dice.pick(this.#operations.filter(({ isStream }) => isStream));
    const scene = { dice, caller, ids: this.#ids };
    if (socket === undefined)
      return void (await this.#open({ ...scene, operation: stream.name }, stream));
    if (dice.chance(0.03)) return socket.close();
    const kind: Kind = drawKind(dice);
    const command = dice.pick(this.#commands);
    const { frame, id } = makeFrame({ ...scene, operation: command.op }, command, kind);
    if (dice.chance(0.1)) socket.send("ping");
    if (id === undefined) return socket.send(frame);
    const reply = await socket.ask(frame, id);
    if (reply === undefined || "closed" in reply) return;
    const { type, data } = reply.message;
    const status = Number(data?.status);
    if (type === "error" && status >= 500)
      this.tally.find(`${frame.slice(0, 400)}: ${JSON.stringify(data)}`);
    this.tally.count(`socket ${command.op}`, kind, {
      ok: type === "result",
      code: codeOf(data) ?? type,
    });
  }
}

function codeOf(body: unknown): string | undefined {
  if (typeof body !== "object" || body === null || !("code" in body)) return undefined;
  return typeof body.code === "string" ? body.code : undefined;
}

async function credentialHeaders(
  dice: Dice,
  caller: Caller,
  { credential, body, operation }: Case,
  url: URL,
): Promise<Record<string, string>> {
  if (credential === "session") return { authorization: `Bearer ${caller.token}` };
  const key = caller.keys.length === 0 ? undefined : dice.pick(caller.keys);
  if (credential === "none" || key === undefined) return {};
  return signedHeaders({
    ...key,
    timestampMs: Date.now(),
    method: operation.method,
    pathAndQuery: url.pathname + url.search,
    ...(body === undefined ? {} : { body }),
  });
}
