/** What the user holds of an outcome, what it has won or lost, and what it pays. */
import type { Market, MarketAsset, Position } from "@rfq-custody/client";
import { marketHref } from "../router.ts";
import { useAct, useRead } from "../session/session.tsx";
import { costOf, resultOf } from "../positions.ts";
import { ActionButton } from "../ui/actions.tsx";
import { clockNow } from "../ui/clock.ts";
import { Loading } from "../ui/place.tsx";
import { Facts, Part } from "../ui/records.tsx";
import { fromNow, Price, Result, tokensOf, usdcOf } from "../ui/values.tsx";
import { assetKey, formatUnits, toCent } from "../units.ts";
import { useBalance } from "../wallet/balances.ts";

/** Null: none. Undefined: not read yet. */
export function usePosition({ venue_id, asset_id }: MarketAsset): Position | null | undefined {
  const asset = { venue_id, asset_id };
  return useRead(
    ["balances", "position", venue_id, asset_id],
    async (client) => (await client.rfq.positions(asset).page()).items[0] ?? null,
  );
}

export function PositionPart({ asset, outcome }: { asset: MarketAsset; outcome: string }) {
  const position = usePosition(asset);
  return (
    <Part title="Your position" aside={<a href="#portfolio">All positions</a>}>
      {position === undefined ? <Loading what="your position" /> : null}
      {position === null ? <p className="muted">You hold none.</p> : null}
      {position === undefined || position === null ? null : (
        <Facts
          facts={{
            "You hold": (
              <>
                {tokensOf(position.amount) || "0"} {outcome}
              </>
            ),
            "You paid, on average": position.average_price && (
              <Price price={position.average_price} />
            ),
            [position.result === null ? "Worth at the last price, USDC" : "Pays, USDC"]: usdcOf(
              position.value,
            ),
            "Result so far, USDC":
              resultOf(position) === null ? (
                ""
              ) : (
                <Result result={resultOf(position)} paid={costOf(position)} />
              ),
            "If it happens, it pays, USDC": position.result === null ? usdcOf(position.amount) : "",
          }}
        />
      )}
    </Part>
  );
}

/** In place of the ticket once a market has a result or trades no more. */
export function Ended({ market, outcome }: { market: Market; outcome: string }) {
  const { result, settles_at, complement_asset_id } = market;
  const isPaid = settles_at !== null && Date.parse(settles_at) <= clockNow();
  const pays = `One ${outcome} pays ${formatUnits(BigInt(result ?? 0))} USDC.`;
  return (
    <section className="card ticket" aria-label="Result">
      <h2>Trading has ended</h2>
      {result === null ? (
        <p>The result is not known yet.</p>
      ) : complement_asset_id === null ? (
        <p>
          {pays} Withdraw your tokens from the <a href="#wallet/withdraw">wallet</a> and redeem them
          at the venue.
        </p>
      ) : isPaid ? (
        <>
          <p>
            <b>{pays}</b> The result is final, and every holder is paid in the minutes after it.
          </p>
          <Redeem market={market} isPaid />
        </>
      ) : (
        <>
          <p>
            <b>{pays}</b> This is a proposal. It is final{" "}
            {settles_at === null ? "later" : fromNow(settles_at)}, and then you are paid without
            doing anything.
          </p>
          <Redeem market={market} isPaid={false} />
        </>
      )}
    </section>
  );
}

/** A final result at once, or before it one of each token of a pair for 1 USDC. */
export function Redeem({ market, isPaid }: { market: Market; isPaid: boolean }) {
  const act = useAct("balances", "ledger");
  const { venue_id, asset_id, complement_asset_id, result } = market;
  const own = useBalance({ venue_id, asset_id })?.balance ?? 0n;
  const other = useBalance({ venue_id, asset_id: complement_asset_id ?? "" })?.balance ?? 0n;
  const both = own < other ? own : other;
  const amount = isPaid ? (own * BigInt(result ?? 0)) / 1_000_000n : both;
  if (complement_asset_id === null || amount === 0n) return null;
  return (
    <p>
      <ActionButton
        kind="primary"
        label={`Redeem for ${formatUnits(toCent(amount))} USDC`}
        name={`Redeem ${assetKey(market)} for ${formatUnits(amount)} USDC`}
        done={`${formatUnits(amount)} USDC is yours.`}
        run={() =>
          act((client) =>
            client.custody.redeem({ venue_id, asset_id, ...(isPaid ? {} : { amount: both }) }),
          )
        }
      />
      <small className="sub">
        {isPaid
          ? "Now, instead of in some minutes."
          : "One of each token is worth 1 USDC at any time."}
      </small>
    </p>
  );
}

/** Where the whole position is for sale. */
export function sellHref(asset: MarketAsset): string {
  return `${marketHref(asset)}/sell`;
}
