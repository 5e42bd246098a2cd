/** The proof of liabilities, over a database and objects of its own. */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { decode } from "../../packages/client/src/wire.ts";
import {
  type Liabilities,
  type LiabilityProof,
  type SigningKeys,
  verifyLiability,
  verifyReceipt,
} from "../../packages/client/src/index.ts";
import { USDC } from "../../src/assets/asset.ts";
import { commit, newGroup } from "../../src/platform/commit.ts";
import { all, blob, first, sql, uuid } from "../../src/platform/sql.ts";
import { setClock } from "../../src/platform/time.ts";
import { post } from "../../src/ledger/post.ts";
import { proveLiabilities } from "../../src/reconcile/liabilities/prove-liabilities.ts";
import { bearer, send, settings } from "../support/http.ts";
import { fund, newAsset, queueWithdrawal, randomHex } from "../support/ledger.ts";
import { answerAlert } from "../support/pager.ts";
import { newUser, type TestUser } from "../support/users.ts";

const db = env.LIABLE_DB;
/** Two users at most. */
const SLICE = 4;

beforeAll(async () => {
  setClock({ sleep: () => Promise.resolve() });
  await applyD1Migrations(db, env.TEST_MIGRATIONS);
  const hash = blob(randomHex(32));
  await all(
    db,
    sql`INSERT INTO chain_cursors (chain, confirmed_number, confirmed_hash, scanned_number,
        scanned_hash, head_number, moved_group, moved_at)
      SELECT 'local', 40, ${hash}, 40, ${hash}, 40, 1, 1`,
  );
});
beforeEach(() => all(db, sql`DELETE FROM liability_proofs`));
afterAll(() => setClock({}));

type Objects = Pick<R2Bucket, "put" | "get" | "head">;

/** Objects of one test. */
function objects(): Objects {
  const prefix = randomHex(8);
  const { ARCHIVE } = env;
  return {
    put: ((key: string, value: string, options: R2PutOptions) =>
      ARCHIVE.put(`${prefix}/${key}`, value, options)) as R2Bucket["put"],
    get: ((key: string, options: R2GetOptions) =>
      ARCHIVE.get(`${prefix}/${key}`, options)) as R2Bucket["get"],
    head: (key) => ARCHIVE.head(`${prefix}/${key}`),
  };
}

const step = (ARCHIVE: Objects) =>
  proveLiabilities(
    { DB: db, ARCHIVE },
    settings(),
    async ({ assets }) => new Map(assets.map((asset) => [asset, 1_000_000n])),
    SLICE,
  );

async function prove(ARCHIVE: Objects): Promise<void> {
  while (await step(ARCHIVE));
}

/** What `get` of a path answers, over these objects. */
const get = (ARCHIVE: Objects, target: string, headers: Record<string, string> = {}) =>
  send(target, { headers, env: { DB: db, ARCHIVE } });

const receiptOf = async (ARCHIVE: Objects) =>
  (
    await get(ARCHIVE, `/.well-known/liabilities.json?day=${today()}`, {
      accept: "application/jose",
    })
  ).text();
const today = () => new Date().toISOString().slice(0, 10);
const keysOf = async () => (await send("/.well-known/jwks.json")).json<SigningKeys>();

async function proofOf(ARCHIVE: Objects, { token }: TestUser, query = "") {
  const response = await get(ARCHIVE, `/custody/get-liability-proof${query}`, bearer(token));
  return decode(await response.text()) as LiabilityProof & { code?: string };
}

/** Moves USDC that a user has pending to another one, as a trade does. */
async function trade(from: TestUser, to: TestUser, amount: bigint): Promise<void> {
  const group = newGroup();
  await commit(
    db,
    group,
    post(group, {
      reason: "trade",
      step: "match",
      from: "pending",
      to: "available",
      source: sql`SELECT ${uuid(from.userId)} AS from_owner, ${uuid(to.userId)} AS to_owner,
        ${USDC} AS asset, ${amount} AS amount, ${blob(randomHex(16))} AS ref, 0 AS line`,
    }),
  );
}

/** Calls `between` before the n-th read of a slice. */
function interrupted(bucket: Objects, between: (call: number) => Promise<unknown>): Objects {
  let call = 0;
  return {
    ...bucket,
    put: (async (...given: Parameters<R2Bucket["put"]>) => {
      await between(call++);
      return bucket.put(...given);
    }) as R2Bucket["put"],
  };
}

it("proves to each user the balance at the cut, whatever moves meanwhile", async () => {
  const token = newAsset();
  const [ann, bob, frozen, poor, later] = await Promise.all(
    [{ [USDC]: 5_000_000n, [token.key]: 70n }, { [USDC]: 7_000_000n }, { [USDC]: 1n }, {}, {}].map(
      (funds) => newUser(funds, db),
    ),
  );
  await all(db, sql`UPDATE users SET frozen_at = 1 WHERE user_id = ${uuid(frozen!.userId)}`);
  await queueWithdrawal(ann!, USDC, 2_000_000n, { db });
  const bucket = objects();
  const moving = interrupted(bucket, async (call) => {
    await trade(ann!, bob!, 1_000n);
    await fund(later!.userId, USDC, 10n, { db });
    if (call === 3) await queueWithdrawal(bob!, USDC, 6_000_000n, { db });
  });
  await prove(moving);
  const [keys, receipt] = [await keysOf(), await receiptOf(bucket)];
  for (const [user, amount] of [
    [ann!, 5_000_000n],
    [bob!, 7_000_000n],
  ] as const) {
    const proof = await proofOf(bucket, user);
    const { asset, record } = await verifyLiability(proof, receipt, keys);
    expect([proof.amount, record.day, asset.asset_id]).toEqual([amount, today(), null]);
    expect(asset.chains).toMatchObject([{ chain: "local", held: 1_000_000n, settling: 0n }]);
  }
  const query = `?asset=${token.key}`;
  const ofToken = await proofOf(bucket, ann!, query);
  expect(await verifyLiability(ofToken, receipt, keys)).toMatchObject({
    asset: { total: 70n, leaves: 1, asset_id: token.asset_id },
  });
  const ofFrozen = await proofOf(bucket, frozen!, `?day=${today()}`);
  expect(ofFrozen.code ?? "account_frozen").toBe("account_frozen");
  for (const user of [poor!, later!])
    expect((await proofOf(bucket, user)).code).toBe("liability_unknown");
  expect((await proofOf(bucket, bob!, query)).code).toBe("liability_unknown");
  expect((await proofOf(bucket, ann!, "?day=2020-02-02")).code).toBe("liability_unknown");
  // The leaf of the frozen user counts, because the total is what the journal owes.
  const [usdc] = (await recordOf(bucket)).owed.filter((each) => each.asset_id === null);
  expect(usdc!.total).toBeGreaterThanOrEqual(12_000_001n);
});

async function recordOf(bucket: Objects): Promise<Liabilities> {
  const receipt = await verifyReceipt(await receiptOf(bucket), await keysOf());
  if (receipt.kind !== "liabilities") throw new Error("another record");
  const json = await get(bucket, `/.well-known/liabilities.json?day=${today()}`);
  expect(decode(await json.text())).toEqual(receipt.record);
  return receipt.record;
}

it("goes on wherever it was killed, and publishes one record a day", async () => {
  const user = await newUser({ [USDC]: 3_000_000n }, db);
  const bucket = objects();
  const failed = new Set<string>();
  const once = async (name: string) => {
    if (failed.has(name)) return;
    failed.add(name);
    throw new Error("killed");
  };
  // Every call fails before its first effect, and every write also after it.
  const failing = {
    put: (async (...given: Parameters<R2Bucket["put"]>) => {
      await once(`before ${given[0]}`);
      const put = await bucket.put(...given);
      await once(`after ${given[0]}`);
      return put;
    }) as R2Bucket["put"],
    get: (async (...given: Parameters<R2Bucket["get"]>) => {
      await once(`get ${given[0]}`);
      return bucket.get(...given);
    }) as R2Bucket["get"],
    head: bucket.head,
  };
  const published = async () =>
    (await first(db, sql`SELECT 1 FROM liability_proofs WHERE published_at > 0`)) !== undefined;
  for (let call = 0; !(await published()); call++) {
    expect(call).toBeLessThan(200);
    await step(failing);
  }
  expect(failed.size).toBeGreaterThan(10);
  const receipt = await receiptOf(bucket);
  const keys = await keysOf();
  expect((await verifyLiability(await proofOf(bucket, user), receipt, keys)).record.day).toBe(
    today(),
  );
  await step(bucket);
  expect(await receiptOf(bucket)).toBe(receipt);
  // A restored database knows nothing of it, and another cut of the day is not published.
  await all(db, sql`DELETE FROM liability_proofs`);
  await fund(user.userId, USDC, 1n, { db });
  await prove(bucket);
  expect(await published()).toBe(false);
  expect(await receiptOf(bucket)).toBe(receipt);
});

it("takes another cut when too much has happened since", async () => {
  const user = await newUser({ [USDC]: 5n }, db);
  const bucket = objects();
  await step({ ...bucket, get: () => Promise.reject(new Error("away")) });
  await all(db, sql`UPDATE liability_proofs SET up_to_transfer = -100001, slices = 0`);
  await fund(user.userId, USDC, 2n, { db });
  await prove(bucket);
  expect((await proofOf(bucket, user)).amount).toBe(7n);
});

it("publishes nothing and alerts if a total is not what the journal owes", async () => {
  await newUser({ [USDC]: 5n }, db);
  const bucket = objects();
  // A slice that leaves its users out.
  const short = {
    ...bucket,
    get: (async (key: string, options: R2GetOptions) => {
      if (!key.endsWith("/0.json")) return bucket.get(key, options);
      return { json: () => Promise.resolve([]) };
    }) as R2Bucket["get"],
  };
  await prove(short);
  expect((await get(bucket, `/.well-known/liabilities.json?day=${today()}`)).status).toBe(404);
  await answerAlert("liabilities_late", "liabilities", { db, end: () => prove(bucket) });
  expect((await recordOf(bucket)).owed.length).toBeGreaterThan(0);
});
