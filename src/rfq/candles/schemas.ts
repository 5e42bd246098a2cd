/** The responses of candles and tickers. */
import * as z from "zod";
import { CANDLE_STEPS, type CandleInterval } from "../../archive/candles.ts";
import { venueOut } from "../../assets/asset-fields.ts";
import { described, oneOf, u256Out } from "../../http/fields.ts";

// Safe cast: `Object.keys` returns these keys.
const INTERVALS = Object.keys(CANDLE_STEPS) as CandleInterval[];

export const intervalField = described(oneOf(INTERVALS), "Length of a candle");

const price = (description: string) => described(z.int(), description);

export const Candle = z
  .object({
    start: described(z.iso.datetime(), "Start of the minute, hour or UTC day"),
    open: price("Price of its first trade, scaled by 1e6"),
    high: price("Highest price, scaled by 1e6"),
    low: price("Lowest price, scaled by 1e6"),
    close: price("Price of its last trade, scaled by 1e6"),
    amount: u256Out("Native units of the asset that traded"),
    usdc_amount: u256Out("USDC native units that they cost, without fees"),
    trades: described(z.int(), "Number of trades"),
    final: described(z.boolean(), "Whether it changes no more"),
  })
  .meta({ id: "Candle" });

const Ticker = z
  .object({
    venue_id: venueOut("Venue of the asset"),
    asset_id: described(z.string(), "Outcome token, as canonical 0x hex"),
    last_price: price("Price of the last trade, scaled by 1e6"),
    last_price_at: described(z.iso.datetime(), "When it was made"),
    change: price("last_price less the first price of the last day, scaled by 1e6"),
    amount: u256Out("Native units of the asset that traded in the last day"),
    usdc_amount: u256Out("USDC native units that they cost, without fees"),
    trades: described(z.int(), "Number of trades in the last day"),
    prices: described(
      z.array(z.int().nullable()),
      "The last price of each of the 24 hours, oldest first; null where nobody traded",
    ),
  })
  .meta({ id: "Ticker" });

export const TickersResponse = z.object({
  items: described(z.array(Ticker), "At most 1 000 assets, largest volume first"),
  as_of: described(z.iso.datetime(), "When they were read"),
});
