/**
 * The cut of a day's proof. One batch reads the newest transfer, the house accounts and the
 * confirmed block of each chain, so all of them belong to one commit group. No balance is copied: a
 * slice that is read later takes back what the transfers since then have moved.
 */
import type * as z from "zod";
import { toHex } from "../../assets/amount.ts";
import type { AssetKey } from "../../assets/asset.ts";
import { signingKeyId } from "../../audit/signing-keys.ts";
import { assetViewOrUsdc } from "../../custody/payment-records.ts";
import { externalOwner } from "../../ledger/post.ts";
import { NOW } from "../../platform/commit.ts";
import type { Config } from "../../platform/config.ts";
import { all, batch, literal, sql } from "../../platform/sql.ts";
import { toWireTime } from "../../platform/time.ts";
import { type HoldingsAt, issuedOf } from "../check-holdings.ts";
import type { AssetLiability, ChainHolding, Liabilities } from "./liability-schemas.ts";
import * as proof from "./proof-run.ts";

export type LiabilitiesRecord = z.input<typeof Liabilities>;
type AssetOwed = Omit<z.input<typeof AssetLiability>, "root" | "leaves">;
type Holding = z.input<typeof ChainHolding>;

/** The record without its trees. A total is what the journal owes the users. */
export type Cut = Omit<LiabilitiesRecord, "owed"> & {
  readonly owed: Readonly<Record<AssetKey, AssetOwed>>;
};

/** Days of earlier records that a record names. */
const EARLIER_DAYS = 400;

/** Each range of owners by their index. A user's id begins with its time, so none is within. */
const HOUSE = sql`SELECT CAST(a.owner AS TEXT) AS owner, a.asset, CAST(a.balance AS TEXT) AS balance
  FROM json_each('["external:", "fees", "losses", "pair:"]') r
    CROSS JOIN accounts a ON a.owner >= CAST(r.value AS BLOB)
      AND a.owner < CAST(r.value || '~' AS BLOB)
  WHERE a.kind IN ('external', 'fees') AND a.balance <> 0`;

const HEAD = sql`SELECT at, at / ${literal(proof.DAY_MS)} AS day,
    ${proof.NEWEST_TRANSFER} AS transfer,
    coalesce((SELECT max(account_id) FROM accounts), 0) AS accounts,
    coalesce((SELECT max(seq) FROM commit_groups), 0) AS "group"
  FROM (SELECT ${NOW} AS at)`;
type Head = Readonly<Record<"at" | "day" | "transfer" | "accounts" | "group", number>>;

const EARLIER = sql`SELECT day FROM liability_proofs WHERE published_at IS NOT NULL
  ORDER BY day DESC LIMIT ${EARLIER_DAYS}`;

type House = { readonly owner: string; readonly asset: AssetKey; readonly balance: string };
type Confirmed = { readonly block: number; readonly hash: `0x${string}` };
type Issued = { readonly asset: AssetKey; readonly issued: string; readonly paid: string };

/** Takes the cut unless today's proof has one that can go on. Throws if a chain cannot be read. */
export async function takeCut(
  db: D1Database,
  settings: Config,
  { bucket, holdingsAt }: { bucket: proof.ProofBucket; holdingsAt: HoldingsAt },
  sliceAccounts: number,
): Promise<void> {
  const chains = settings.CHAINS.map(({ chain }) => chain);
  const ofChains = chains.flatMap((chain) => [
    sql`SELECT confirmed_number AS block, '0x' || lower(hex(confirmed_hash)) AS hash
      FROM chain_cursors WHERE chain = ${chain}`,
    issuedOf(chain, sql`SELECT asset FROM accounts WHERE owner = ${externalOwner(chain)}`),
  ]);
  // Safe cast: the columns of the statements.
  const [[head], earlier, house, ...read] = (await batch<unknown>(db, [
    HEAD,
    EARLIER,
    HOUSE,
    ...ofChains,
  ])) as [Head[], { day: number }[], House[], ...unknown[][]];
  if (head === undefined) throw new Error("a SELECT of the time has no row");
  const blocks: LiabilitiesRecord["blocks"] = [];
  const held: { readonly asset: AssetKey; readonly holding: Holding }[] = [];
  for (const [index, chain] of chains.entries()) {
    const [[at], rows] = read.slice(2 * index) as [Confirmed[], Issued[]];
    const issued = rows.filter((row) => row.issued !== "0");
    if (issued.length === 0) continue;
    if (at === undefined) throw new Error(`${chain} has no confirmed block`);
    blocks.push({ chain, block: at.block, block_hash: at.hash });
    const assets = issued.map(({ asset }) => asset);
    const holdings = await holdingsAt({ chain, block: at.block, blockHash: at.hash, assets });
    for (const row of issued)
      held.push({
        asset: row.asset,
        holding: {
          chain,
          issued: toHex(BigInt(row.issued)),
          settling: toHex(BigInt(row.paid)),
          held: toHex(holdings.get(row.asset) ?? 0n),
        },
      });
  }
  const heldOf = Map.groupBy(held, ({ asset }) => asset);
  const cut: Cut = {
    day: proof.dayText(head.day),
    at: toWireTime(head.at),
    entry_id: 2 * head.transfer + 1,
    commit_group: head.group,
    earlier: earlier.map(({ day }) => proof.dayText(day)),
    blocks,
    owed: Object.fromEntries(
      [...Map.groupBy(house, ({ asset }) => asset)].map(([asset, accounts]) => {
        const holdings = (heldOf.get(asset) ?? []).map(({ holding }) => holding);
        return [asset, { ...owedOf(asset, accounts), chains: holdings }];
      }),
    ),
  };
  const run = { day: head.day, up_to_transfer: head.transfer };
  await bucket.put(proof.objectKey(run, "cut"), JSON.stringify(cut));
  await all(
    db,
    sql`INSERT INTO liability_proofs (${proof.RUN_COLUMNS})
      SELECT ${head.day}, ${head.transfer}, ${head.accounts}, ${sliceAccounts},
        ${signingKeyId(settings)}, 0, NULL WHERE 1
      ON CONFLICT (day) DO UPDATE SET up_to_transfer = excluded.up_to_transfer,
        accounts = excluded.accounts, slice_accounts = excluded.slice_accounts,
        key_id = excluded.key_id, slices = 0
      WHERE NOT ${proof.canContinue("liability_proofs")}`,
  );
}

/** The journal of an asset sums to zero, so the users have what the house accounts lack. */
function owedOf(asset: AssetKey, accounts: readonly House[]): Omit<AssetOwed, "chains"> {
  const sum = (owner: string, sign: 1 | -1) =>
    accounts.reduce((total, account) => {
      const amount = BigInt(sign) * BigInt(account.balance);
      return account.owner.startsWith(owner) && amount > 0n ? total + amount : total;
    }, 0n);
  return {
    ...assetViewOrUsdc(asset),
    total: toHex(sum("", -1) - sum("", 1)),
    fees: toHex(sum("fees", 1)),
    losses: toHex(sum("losses", -1)),
    pairs: toHex(sum("pair:", 1)),
    issued_by_pairs: toHex(sum("pair:", -1)),
  };
}
