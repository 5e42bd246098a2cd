/**
 * Step 9: checks the books by the operator's reconciliation, and by own sums of balances and chain.
 */
import { type Address, getAddress } from "viem";
import { order } from "../operator/carry-out.ts";
import type { Reconciliation } from "../operator/results.ts";
import { heldBy, tokenOf } from "../stack/tokens.ts";
import { Unmet, expectEqual, units } from "./narrator.ts";
import type { Person, World } from "./world.ts";

type Sums = Map<string, bigint>;

export async function checkBooks(world: World): Promise<void> {
  const { tell, taker, makers } = world;
  const people = [taker, ...makers];
  const held = new Map<string, bigint>();
  let entries = 0;
  for (const person of people) {
    const own = await holdingsOf(person);
    entries += own.entries;
    for (const [asset, amount] of own.sums) add(held, asset, amount);
  }
  tell.note(
    `every balance of ${people.length} users equals the sum of its entries (${entries} in all)`,
  );
  for (const [asset, amount] of held) {
    const onChain = await chainHoldings(world, people, asset);
    tell.note(
      `${asset === "USDC" ? "USDC" : "outcome tokens"}: users hold ${units(amount)}, vault and deposit addresses hold ${units(onChain)}`,
    );
    expectEqual(`the chain's holdings of ${asset}`, onChain, amount);
  }
  await reconcile(world);
  tell.fact(`${entries} entries, ${held.size} assets: journal, balances and chain agree`);
}

/** The service's own check of journal, balances and chain (docs/invariants.md). */
async function reconcile({ tell, stack }: World): Promise<void> {
  const books = await tell.call(
    "operator: reconcile",
    // Safe cast: the result of the command.
    async () => (await order(stack, "reconcile")) as Reconciliation,
    describe,
  );
  if (!books.ok) throw new Unmet("the operator's reconciliation to find no difference", books);
}

function describe({ ok, differences, block }: Reconciliation): string {
  const blocks = Object.entries(block).map(([chain, number]) => `${chain} at block ${number}`);
  const verdict = ok
    ? "the whole journal sums to zero, nothing differs"
    : `${differences.length} differences`;
  return `${verdict} (${blocks.join(", ")})`;
}

/**
 * The user's balances by asset, available plus pending. Each is compared with the user's entries.
 */
async function holdingsOf({ name, client }: Person): Promise<{ sums: Sums; entries: number }> {
  const [balances, ledger] = await Promise.all([
    client.custody.balances().all(),
    client.custody.ledger({ limit: 500 }).all(),
  ]);
  const journal: Sums = new Map();
  for (const { venue, asset_id, account, delta } of ledger)
    add(journal, `${assetKey(venue, asset_id)} ${account}`, delta);
  const sums: Sums = new Map();
  for (const { venue_id, asset_id, balance, pending_balance, promised } of balances) {
    const asset = assetKey(venue_id, asset_id);
    // An open quote moves nothing: what it promises is still available in the journal.
    const available = journal.get(`${asset} available`) ?? 0n;
    expectEqual(`${name}'s available ${asset}`, balance + promised, available);
    expectEqual(
      `${name}'s pending ${asset}`,
      pending_balance - promised,
      journal.get(`${asset} pending`) ?? 0n,
    );
    add(sums, asset, balance + pending_balance);
    for (const account of ["available", "pending"]) journal.delete(`${asset} ${account}`);
  }
  const forgotten = [...journal].filter(([, sum]) => sum !== 0n);
  if (forgotten.length > 0)
    throw new Unmet(`${name}'s balances to list every asset of the journal`, forgotten);
  return { sums, entries: ledger.length };
}

async function chainHoldings(
  { stack, faucet, asset: traded }: World,
  people: Person[],
  asset: string,
): Promise<bigint> {
  const lists = await Promise.all(people.map(({ client }) => client.custody.depositAddresses()));
  const holders: Address[] = [
    stack.deployment.vault,
    ...lists.flat().map(({ address }) => getAddress(address)),
  ];
  const token = tokenOf(stack.deployment, asset === "USDC" ? null : traded);
  const amounts = await Promise.all(holders.map((holder) => heldBy(faucet.client, token, holder)));
  return amounts.reduce((sum, amount) => sum + amount, 0n);
}

function assetKey(venue: string | null, assetId: string | null): string {
  return venue === null || assetId === null ? "USDC" : `${venue}:${assetId}`;
}

function add(sums: Sums, key: string, amount: bigint): void {
  sums.set(key, (sums.get(key) ?? 0n) + amount);
}
