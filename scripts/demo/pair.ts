/**
 * Step 8: a market that pays. A maker who has USDC alone quotes it, the match makes both tokens,
 * and once the operator resolves it both are paid without doing anything.
 */
import { createHash } from "node:crypto";
import type { MarketAsset, Match } from "../../packages/client/src/index.ts";
import { order } from "../operator/carry-out.ts";
import { CHAINLESS_VENUE } from "../stack/local-venues.ts";
import { expectEqual, short, Unmet, units } from "./narrator.ts";
import { type Person, WAIT_MS, type World } from "./world.ts";

const venue_id = CHAINLESS_VENUE;
const [YES, NO] = ["0xa1", "0xa2"].map((asset_id): MarketAsset => ({ venue_id, asset_id })) as [
  MarketAsset,
  MarketAsset,
];
const AMOUNT = 500_000_000n;
const PRICE = 640_000;

export async function payMarket(world: World): Promise<void> {
  const { tell, stack, taker, makers } = world;
  const [maker] = makers;
  await tell.call(
    "operator: market set (Yes, and No with --complement)",
    async () => {
      const title = "Will it rain in Paris tomorrow?";
      const of = ({ asset_id }: MarketAsset, outcome: string) => ({
        venue: venue_id,
        "asset-id": asset_id,
        title,
        outcome,
      });
      await order(stack, "market set", of(YES, "Yes"));
      await order(stack, "market set", { ...of(NO, "No"), complement: YES.asset_id });
    },
    () => `two tokens of ${venue_id}, which has no chain, are worth 1 USDC together`,
  );
  const before = await Promise.all([taker, maker].map(usdcOf));
  const match = await tradeWithUsdcAlone(world, maker);
  await tell.call(
    "operators: market resolve (No), and another one approves it",
    () => resolveByTwo(stack),
    () => "Yes pays 0, No pays 1 USDC",
  );
  await stack.runCron();
  for (const [person, asset] of [
    [taker, YES],
    [maker, NO],
  ] as const) {
    const paid = await tell.wait(`${person.name} is paid`, { timeoutMs: WAIT_MS }, () =>
      person.account.find("token.redeemed", ({ asset_id }) => asset_id === asset.asset_id),
    );
    tell.event(
      `token.redeemed: ${units(paid.data.amount)} for ${units(paid.data.usdc_amount)} USDC`,
    );
  }
  const after = await Promise.all([taker, maker].map(usdcOf));
  const [taken, made] = [0, 1].map((n) => (after[n] ?? 0n) - (before[n] ?? 0n));
  expectEqual("what the taker lost", taken, -match.usdc_amount);
  expectEqual("what the maker won", made, match.usdc_amount);
  tell.fact(`the taker paid ${units(match.usdc_amount)} USDC for Yes, which the maker has won`);
}

async function tradeWithUsdcAlone({ tell, taker }: World, maker: Person): Promise<Match> {
  const request = await tell.call(
    `POST /rfq/request Bid ${units(AMOUNT)} Yes (taker)`,
    () => taker.client.rfq.request({ ...YES, amount: AMOUNT, side: "Bid" }),
    (it) => `201 request ${short(it.request_id)}`,
  );
  const quote = await tell.call(
    `POST /rfq/quote {price: ${PRICE}, backing: "usdc"} (${maker.name}, who has no such token)`,
    () =>
      maker.client.rfq.quote(
        { ...request, price: PRICE, backing: "usdc", expires_in_secs: 120 },
        { maxAgeMs: 30_000 },
      ),
    ({ reserve }) => `201 ${units(reserve?.amount ?? 0n)} USDC are set aside`,
  );
  const match = await tell.call(
    `POST /rfq/accept quote ${short(quote.quote_id)} (taker)`,
    () => taker.client.rfq.accept(quote),
    (it) => `200 match ${short(it.match_id)}, ${units(it.usdc_amount)} USDC`,
  );
  for (const [person, asset] of [
    [taker, YES],
    [maker, NO],
  ] as const) {
    const { balance } = await person.client.custody.balance(asset);
    expectEqual(`${person.name}'s token`, balance, AMOUNT);
  }
  tell.note(
    `the match made both: ${units(AMOUNT)} Yes of the taker, ${units(AMOUNT)} No of the maker`,
  );
  return match;
}

/** A result needs two operators, of which the local stack has the keys. */
async function resolveByTwo(stack: World["stack"]): Promise<void> {
  const terms = { venue: venue_id, "asset-id": YES.asset_id, result: "0" };
  // Safe casts: the results of the commands.
  const { proposal_id: id } = (await order(stack, "market resolve", terms)) as Proposed;
  const list = (await order(stack, "approvals list")) as (Proposed & { content: string })[];
  const content = list.find(({ proposal_id }) => proposal_id === id)?.content ?? "";
  const sha256 = createHash("sha256").update(content).digest("hex");
  const approval = { command: ["approve"], options: { id, sha256 }, operator: "local-2" };
  const approved = await stack.operator(approval);
  if (!approved.ok) throw new Unmet("the second operator to approve", approved.problem);
}

type Proposed = { proposal_id: string };

async function usdcOf({ client }: Person): Promise<bigint> {
  return (await client.custody.usdcBalance()).balance;
}
