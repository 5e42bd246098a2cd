/** A freeze that begins before a verb's guard and has ended when the verb asks for the reason. */
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { revokeOwnApiKey } from "../../src/auth/revoke-key.ts";
import { issueTicket } from "../../src/auth/ws-ticket.ts";
import type { Actor } from "../../src/platform/actor.ts";
import { Problem } from "../../src/platform/problem.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { ACCOUNT_VERBS } from "../support/account-verbs.ts";
import { settings } from "../support/http.ts";
import { newKey, newUserWithPassword } from "../support/users.ts";

// scrypt is slow on a busy machine.
vi.setConfig({ testTimeout: 30_000 });

const ip = undefined;
const setFrozen = (userId: string, at: number | null) =>
  all(env.DB, sql`UPDATE users SET frozen_at = ${at} WHERE user_id = ${uuid(userId)}`);

/** The user is frozen during each batch, so that no read between them sees it. */
async function frozenInBatches(userId: string, work: () => Promise<unknown>): Promise<unknown> {
  const { DB } = env;
  const batch = DB.batch.bind(DB);
  // Batches may overlap, as that of a notice with the next one.
  let running = 0;
  const spy = vi.spyOn(DB, "batch").mockImplementation(async (statements) => {
    running++;
    await setFrozen(userId, 1);
    try {
      return await batch(statements);
    } finally {
      if (--running === 0) await setFrozen(userId, null);
    }
  });
  try {
    return await work().then(
      () => "ok",
      (error: unknown) => error,
    );
  } finally {
    spy.mockRestore();
  }
}

type Race = readonly [
  verb: string,
  by: "session" | "key",
  verb: Pick<(typeof ACCOUNT_VERBS)[string], "prepare" | "call">,
];
const RACES: readonly Race[] = [
  ...Object.entries(ACCOUNT_VERBS).flatMap(([name, verb]) =>
    verb.by.map((by): Race => [name, by, verb]),
  ),
  ...(["session", "key"] as const).map((by): Race => [
    "createTicket",
    by,
    { call: (actor: Actor) => issueTicket(env.DB, settings(), { actor, scopes: ["read"] }) },
  ]),
  ["revokeApiKey", "key", { call: (actor: Actor) => revokeItself(actor) }],
];

function revokeItself(actor: Actor): Promise<unknown> {
  const { credential } = actor;
  if (credential.kind !== "api_key") throw new Error("a key revokes itself");
  return revokeOwnApiKey(env.DB, { actor, apiKeyId: credential.apiKeyId, ip });
}

it.each(RACES)("%s by a %s answers a problem that says nothing happened", async (_, by, verb) => {
  const user = await newUserWithPassword({ usdc: 1_000n });
  const key = by === "key" ? await newKey(user) : undefined;
  const prepared = await verb.prepare?.(user, key);
  const { actor } = key ?? user;
  const error = await frozenInBatches(user.userId, () => verb.call(actor, prepared));
  expect(error).toBeInstanceOf(Problem);
  const { code, extensions } = (error as Problem).data;
  expect(code).not.toBe("totp_not_enabled");
  expect(code === "unavailable" ? extensions : { outcome: "none" }).toEqual({ outcome: "none" });
});
