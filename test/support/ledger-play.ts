/** Every operation that posts to the journal, for the histories that tests make. */
import { env } from "cloudflare:workers";
import type { AssetKey } from "../../src/assets/asset.ts";
import { failUnpayable } from "../../src/custody/watcher/fail-withdrawal.ts";
import { recordVaultEvents, settlePaid } from "../../src/custody/watcher/settle-withdrawal.ts";
import { withdraw } from "../../src/custody/withdraw.ts";
import { commit, newGroup } from "../../src/platform/commit.ts";
import { config } from "../../src/platform/config.ts";
import { Problem } from "../../src/platform/problem.ts";
import { first, raw, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { acceptQuote } from "../../src/rfq/accept-quote.ts";
import { commitOperations } from "../../src/rfq/book-group.ts";
import { cancelQuote } from "../../src/rfq/cancel-quote.ts";
import { openRequest } from "../../src/rfq/open-request.ts";
import { placeQuote } from "../../src/rfq/place-quote.ts";
import type { Operation } from "../../src/rfq/operation.ts";
import { newAddress, randomHex } from "./ledger.ts";

import type { Actor } from "../../src/platform/actor.ts";

const db = env.DB;
const settings = config(env);
const LIMITS = {
  WITHDRAWAL_MIN_UNITS: 1n,
  WITHDRAWAL_MAX_UNITS: 2n ** 62n,
  WITHDRAWAL_DAILY_COUNT: 100_000,
};

export type OpenRequestTerms = {
  readonly requestId: string;
  readonly asset: AssetKey;
  readonly amount: string;
  readonly side: "Bid" | "Ask";
};

/** Opens a request for an hour. Posts nothing. */
export async function request(
  actor: Actor,
  asset: AssetKey,
  side: "Bid" | "Ask",
  amount: bigint,
): Promise<OpenRequestTerms> {
  const terms = { requestId: uuidv7(), asset, amount: amount.toString(), side };
  await commitOne(
    asset,
    openRequest(
      { op: "open_request", actor, ...terms, disclosed: false, expiresInSecs: 3_600 },
      settings,
    ),
  );
  return terms;
}

/** The quote's id if it was placed. With `secs` 0 it expires in the book's next group. */
export async function quote(
  actor: Actor,
  of: OpenRequestTerms,
  price: number,
  secs = 3_600,
): Promise<string | undefined> {
  const quoteId = uuidv7();
  const operation = placeQuote(
    { op: "place_quote", actor, quoteId, requestId: of.requestId, price, expiresInSecs: secs },
    of,
    settings,
  );
  return (await commitOne(of.asset, operation)) ? quoteId : undefined;
}

export async function cancel(actor: Actor, asset: AssetKey, quoteId: string): Promise<boolean> {
  return commitOne(
    asset,
    cancelQuote({ op: "cancel_quote", actor, operationId: uuidv7(), quoteId }),
  );
}

export async function accept(
  actor: Actor,
  asset: AssetKey,
  quoteId: string,
): Promise<string | undefined> {
  const matchId = uuidv7();
  return (await commitOne(asset, acceptQuote({ op: "accept", actor, matchId, quoteId })))
    ? matchId
    : undefined;
}

/** Commits a group of the book without operations, which expires what is due. */
export async function tick(asset: AssetKey): Promise<void> {
  await commitOperations(db, asset, []);
}

async function commitOne(asset: AssetKey, operation: Operation): Promise<boolean> {
  const done = await commitOperations(db, asset, [operation]);
  if (!done.committed) throw new Error(`the group did not commit: ${String(done.cause)}`);
  return operation.result(done.effects) !== undefined;
}

export type Queued = {
  readonly withdrawalId: string;
  readonly amount: bigint;
  readonly toAddress: string;
};

/** Queues a withdrawal; undefined if it was rejected. */
export async function queue(
  actor: Actor,
  asset: AssetKey,
  amount: bigint,
  clientWithdrawalId = uuidv7(),
): Promise<Queued | undefined> {
  const toAddress = newAddress();
  try {
    const { row } = await withdraw(db, LIMITS, {
      actor,
      ip: undefined,
      terms: { clientWithdrawalId, amount, toAddress, chain: "local", asset },
    });
    return { withdrawalId: row.withdrawal_id.toLowerCase(), amount, toAddress };
  } catch (error) {
    if (error instanceof Problem) return undefined;
    throw error;
  }
}

/** Applies a vault event as the watcher does. Repeating it changes nothing. */
export async function outcome(of: Queued, kind: "Paid" | "Failed"): Promise<void> {
  const found = await first<{ id: string }>(
    db,
    sql`SELECT lower(hex(payment_id)) AS id FROM withdrawals
      WHERE withdrawal_id = ${uuid(of.withdrawalId)}`,
  );
  const group = newGroup();
  const where = {
    transactionHash: randomHex(32),
    ordinal: 0,
    logIndex: 0,
    blockNumber: 1,
    blockHash: randomHex(32),
    batchNo: 1,
  } as const;
  const event = {
    ...where,
    kind,
    id: `0x${found?.id ?? ""}`,
    amount: of.amount,
    to: of.toAddress,
    token: randomHex(20),
    tokenId: 0n,
  };
  const done = await commit(db, group, [
    recordVaultEvents(
      group,
      "local",
      [event as Parameters<typeof recordVaultEvents>[2][number]],
      raw("1"),
    ),
    ...settlePaid(group, "local"),
    ...failUnpayable(group),
  ]);
  if (!done.committed) throw new Error(`the group did not commit: ${String(done.cause)}`);
}
