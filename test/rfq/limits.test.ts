import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import { externalOwner, FEES_OWNER, post } from "../../src/ledger/post.ts";
import { commit, newGroup } from "../../src/platform/commit.ts";
import { config } from "../../src/platform/config.ts";
import { all, blob, first, sql, uuid } from "../../src/platform/sql.ts";
import { GroupCommitter } from "../../src/rfq/group-committer.ts";
import { fund, newAsset, randomHex } from "../support/ledger.ts";
import { newUser } from "../support/users.ts";
import { command, commitCommand, operationOf } from "../support/market.ts";

/** A database of its own, because these tests fill the fees account or the whole database. */
const db = env.SPARE_DB;
const settings = config(env);
const LIMIT = 2n ** 62n;
/** Fees of 100 and 50 basis points. */
const VENUE = "venue_two";

beforeAll(() => applyD1Migrations(db, env.TEST_MIGRATIONS));

/** An open Bid of a funded requester, with one quote of a funded maker at 1 USDC a token. */
async function quotedBid(amount: bigint) {
  const { key: book } = newAsset(VENUE);
  const requester = await newUser({ usdc: 2n * amount }, db);
  const maker = await newUser({ [book]: amount }, db);
  const opened = command.openRequest(requester, book, { amount });
  const quoted = command.placeQuote(maker, opened.requestId, 1_000_000, 300);
  await commitCommand(book, opened, db);
  await commitCommand(book, quoted, db);
  const accept = () => commitCommand(book, command.accept(requester, quoted.quoteId), db);
  return { book, requester, maker, requestId: opened.requestId, accept };
}

/** The house account of fees takes the amount from a chain of its own. */
async function fillFees(amount: bigint): Promise<void> {
  const group = newGroup();
  const source = sql`SELECT ${externalOwner("fees-test")} AS from_owner, ${FEES_OWNER} AS to_owner,
    'usdc' AS asset, ${amount} AS amount, ${blob(randomHex(16))} AS ref, 0 AS line WHERE ${amount} > 0`;
  const outcome = await commit(db, group, [
    ...post(group, { reason: "deposit", step: "credit", from: "external", to: "fees", source }),
  ]);
  if (!outcome.committed) throw new Error("the fees account was not filled", outcome);
}

describe("an accept that a balance cannot hold", () => {
  it("is rejected when the seller's USDC would exceed 2^62", async () => {
    const { maker, accept } = await quotedBid(1_000n);
    await fund(maker.userId, "usdc", LIMIT - 500n, { chain: "seller-test", db });

    expect(await accept()).toMatchObject({ ok: false, problem: { code: "balance_limit" } });
  });

  it("is rejected when the buyer's tokens would exceed 2^62", async () => {
    const { book, requester, accept } = await quotedBid(1_000n);
    await fund(requester.userId, book, LIMIT - 500n, { chain: "buyer-test", db });

    expect(await accept()).toMatchObject({ ok: false, problem: { code: "balance_limit" } });
  });

  it("is rejected when both fees together would exceed 2^62", async () => {
    // Fees of 10 and 5, and room for 12: each fits alone.
    const { requestId, accept } = await quotedBid(1_000n);
    const row = await first<{ fees: string }>(
      db,
      sql`SELECT CAST(sum(balance) AS TEXT) AS fees FROM accounts WHERE owner = ${FEES_OWNER}`,
    );
    await fillFees(LIMIT - 12n - BigInt(row?.fees ?? 0n));

    expect(await accept()).toMatchObject({ ok: false, problem: { code: "balance_limit" } });

    const [request] = await all<{ status: string }>(
      db,
      sql`SELECT status FROM requests WHERE request_id = ${uuid(requestId)}`,
    );
    expect(request).toEqual({ status: "open" });
  });
});

describe("a nearly full database", () => {
  const groups = async () =>
    (await first<{ n: number }>(db, sql`SELECT count(*) AS n FROM commit_groups`))?.n ?? 0;

  it("rejects a request and a quote with the reason, in one commit each", async () => {
    const { book, maker, requester, requestId } = await quotedBid(10n);
    // Else a quote would fail for the lack of funds too.
    await fund(maker.userId, book, 10n, { chain: "full-test", db });
    const committer = new GroupCommitter(db, {
      asset: book,
      waitMs: 0,
      maxWaitMs: 60_000,
      maxOperations: 1,
      macKeys: settings,
      onCommitted: () => Promise.resolve(),
      onFailed: () => {},
      onClockAhead: () => {},
      push: () => Promise.resolve(),
    });
    await all(
      db,
      sql`INSERT INTO kill_switches (name, reason, since) VALUES ('storage_full', '', 0)`,
    );
    const before = await groups();
    const operations = [
      await operationOf(command.openRequest(requester, book, { amount: 1n }), settings, db),
      await operationOf(command.placeQuote(maker, requestId, 1), settings, db),
    ];
    const results = [];
    for (const operation of operations) results.push(await committer.submit(operation));

    for (const result of results) {
      expect(result).toMatchObject({
        ok: false,
        problem: {
          code: "unavailable",
          detail: expect.stringContaining("nearly full"),
          extensions: { outcome: "none" },
          retryAfterSecs: 60,
        },
      });
    }
    expect(await groups()).toBe(before + 2);
  });
});
