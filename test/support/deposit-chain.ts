/** A chain without a node, whose confirmed transfers tests give to the watcher's statements. */
import { env } from "cloudflare:workers";
import { getAddress } from "viem";
import { depositAddressFor } from "../../src/chain/addresses.ts";
import type { TokenTransfer } from "../../src/chain/decode-logs.ts";
import { announceDeposits } from "../../src/custody/custody-events.ts";
import { listDeposits } from "../../src/custody/payment-records.ts";
import { creditConfirmed, depositsDue } from "../../src/custody/watcher/credit-deposit.ts";
import { recordDeposits, transfersToUs } from "../../src/custody/watcher/detect-deposits.ts";
import {
  recheckFloors,
  announceSmallDeposits,
  recordSmallDeposits,
} from "../../src/custody/watcher/small-deposits.ts";
import { commitOrThrow, newGroup } from "../../src/platform/commit.ts";
import { config, defaultChain } from "../../src/platform/config.ts";
import { all, blob, scalar, sql, TRUE, uuid } from "../../src/platform/sql.ts";
import { newAddress, randomHex } from "./ledger.ts";
import { newUser } from "./users.ts";

const db = env.DB;
const base = config(env);
export const TOKENS = getAddress(newAddress());

/** The `min_deposit` of the chain and of its venue. */
export type Floors = { readonly usdc: number; readonly token: number };

/** A chain whose minimum is 1 000 of USDC and 500 of each outcome token, and a user on it. */
export async function openChain() {
  const chain = { ...defaultChain(base), chain: `c${randomHex(6)}`, min_deposit: 1_000 };
  const venue = {
    venue_id: "venue_one",
    chain: chain.chain,
    outcome_tokens: TOKENS,
    min_deposit: 500,
    min_request: 1,
    min_priced_trade: 1,
    taker_fee_bps: 0,
    maker_fee_bps: 0,
  } as const;
  const context = {
    db,
    chain,
    settings: { ...base, CHAINS: [chain], VENUES: [venue] },
    push: async () => {},
  };
  await all(
    db,
    sql`INSERT INTO chain_cursors (chain, confirmed_number, confirmed_hash, scanned_number,
        scanned_hash, head_number, moved_group, moved_at)
      VALUES (${chain.chain}, 90, ${blob(randomHex(32))}, 90, ${blob(randomHex(32))}, 95, 1, 1)`,
  );
  const { userId } = await newUser();
  let nonce = 0;
  const newDepositAddress = async () => {
    const { address, salt } = depositAddressFor(base, chain, userId, nonce);
    await all(
      db,
      sql`INSERT INTO deposit_addresses (chain, address, user_id, nonce, salt, created_at)
        VALUES (${chain.chain}, ${blob(address)}, ${uuid(userId)}, ${nonce++}, ${blob(salt)}, 0)`,
    );
    return address;
  };
  const address = await newDepositAddress();
  const transfer = (amount: bigint, changes: Partial<TokenTransfer> = {}): TokenTransfer => ({
    token: getAddress(chain.usdc),
    tokenId: null,
    from: getAddress(newAddress()),
    to: address,
    amount,
    // Safe cast: 32 random bytes as hexadecimal text.
    transactionHash: randomHex(32),
    ordinal: 0,
    position: 0,
    blockNumber: 88,
    logIndex: 0,
    blockHash: randomHex(32),
    ...changes,
  });
  /** Confirms transfers and credits what is due, group by group, under these minimums. */
  const receive = async (
    transfers: TokenTransfer[],
    floors: Floors = { usdc: 1_000, token: 500 },
  ) => {
    const under = contextUnder(floors);
    const seen = await transfersToUs(under, transfers);
    const confirm = newGroup();
    await commitOrThrow(db, confirm, [
      ...recordDeposits(confirm, under.chain, seen, { confirmed: true, when: TRUE }),
      ...recordSmallDeposits(confirm, under.chain, seen, TRUE),
      ...creditConfirmed(confirm, under.settings, chain.chain, TRUE),
      ...announceDeposits(confirm),
      ...announceSmallDeposits(confirm, seen),
    ]);
    await creditRest();
  };
  const contextUnder = ({ usdc, token }: Floors) => {
    const changed = { ...chain, min_deposit: usdc };
    const venues = [{ ...venue, min_deposit: token }];
    const settings = { ...context.settings, CHAINS: [changed], VENUES: venues };
    return { ...context, chain: changed, settings };
  };
  const creditRest = async () => {
    while ((await scalar<number>(db, depositsDue(chain.chain))) === 1) {
      const group = newGroup();
      await commitOrThrow(db, group, [
        ...creditConfirmed(group, context.settings, chain.chain, TRUE),
        ...announceDeposits(group),
      ]);
    }
  };
  /** Checks all rows, as after a change of the settings. Returns the number of groups. */
  const recheck = async (floors: Floors) => {
    let groups = 1;
    while (await recheckFloors(contextUnder(floors))) groups++;
    await creditRest();
    return groups;
  };
  const listed = async (status?: "below_minimum" | "credited") =>
    (await listDeposits(db, userId, { limit: 5_000, status })).items;
  const statuses = async () => (await listed()).map((deposit) => deposit.status);
  const events = async () =>
    (
      await all<{ type: string }>(
        db,
        sql`SELECT e.type FROM stream_events e JOIN streams s ON s.stream_id = e.stream_id
          WHERE s.name = ${`account:${userId}`} ORDER BY e.seq`,
      )
    ).map(({ type }) => type);
  return {
    chain: chain.chain,
    userId,
    address,
    newDepositAddress,
    transfer,
    receive,
    contextUnder,
    recheck,
    listed,
    statuses,
    events,
  };
}
