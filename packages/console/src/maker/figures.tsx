/** How the maker's recent quotes and trades went. */
import type { Balance, Client, MarketAsset, Match, Quote } from "@rfq-custody/client";
import { useQuery } from "@tanstack/react-query";
import { LOSSES, type Loss } from "../live/live.tsx";
import { useAssetName } from "../markets.ts";
import { useClient } from "../session/session.tsx";
import { useBalances } from "../wallet/balances.tsx";
import { type Column, Table } from "../ui/table.tsx";
import { When } from "../ui/when.tsx";
import { formatPrice, formatUnits } from "../units.ts";

/** The figures are about the newest of each. */
const QUOTES = 200;
const TRADES = 15;
const MARKOUT_MINUTES = [1, 10] as const;

export function Figures() {
  const client = useClient();
  const { data: quotes } = useQuery({
    queryKey: ["my-quotes", "ended"],
    queryFn: async () => (await client.rfq.myQuotes({ limit: QUOTES }).page()).items,
  });
  const { data: balances } = useBalances();
  // One that the maker took back or replaced says nothing about its price.
  const ended = (quotes ?? []).filter(({ status }) => status !== "open" && status !== "cancelled");
  const won = ended.filter(({ status }) => status === "accepted").length;
  return (
    <section className="card" aria-label="Figures">
      <h2>How it went</h2>
      <p role="status">
        {quotes === undefined
          ? "Loading…"
          : ended.length === 0
            ? "No quote has ended yet."
            : `${won} of your last ${ended.length} quotes traded (${percent(won, ended.length)}).`}
      </p>
      <Lost quotes={ended} />
      <Markouts />
      <Reserves balances={balances} />
    </section>
  );
}

function percent(part: number, whole: number): string {
  return `${Math.round((part * 100) / whole)} %`;
}

/** A quote that another price beat. A positive distance: that price was better. */
type LostQuote = Quote & { winning_price: number; distance: number };

function Lost({ quotes }: { quotes: readonly Quote[] }) {
  const nameOf = useAssetName();
  const { data: losses } = useQuery<Loss[]>({
    queryKey: LOSSES,
    queryFn: () => [],
    initialData: [],
    staleTime: Infinity,
  });
  const lost = losses.flatMap(({ quote_id, winning_price }): LostQuote[] => {
    const quote = quotes.find((ended) => ended.quote_id === quote_id);
    if (quote === undefined) return [];
    const lower = quote.price - winning_price;
    return [{ ...quote, winning_price, distance: quote.side === "Bid" ? lower : -lower }];
  });
  return (
    <Table
      caption="Quotes lost since you signed in, and the price that won"
      rows={lost}
      rowKey={({ quote_id }) => quote_id}
      empty="You have lost no quote to another price."
      columns={[
        ["Time", ({ created_at }) => <When at={created_at} />],
        ["Market", (quote) => nameOf(quote)],
        ["Your price", ({ price }) => formatPrice(price), "number"],
        ["Winning price", ({ winning_price: price }) => formatPrice(price), "number"],
        ["Distance", ({ distance }) => signed(distance), "number"],
      ]}
    />
  );
}

function signed(price: number): string {
  return `${price < 0 ? "−" : "+"}${formatPrice(Math.abs(price))}`;
}

type Marked = Match & { markouts: (number | null)[] };

/** How the last price moved after each trade: positive is in favour of the maker. */
function Markouts() {
  const client = useClient();
  const nameOf = useAssetName();
  const { data: trades } = useQuery({
    queryKey: ["matches", "markouts"],
    queryFn: async () => {
      const { items } = await client.rfq.matches({ role: "maker", limit: TRADES }).page();
      return Promise.all(items.map((match) => mark(client, match)));
    },
    refetchInterval: 60_000,
  });
  return (
    <Table
      caption="Your trades as a maker, and the price afterwards"
      rows={trades}
      rowKey={({ match_id }) => match_id}
      empty="None of your quotes has traded yet."
      columns={[
        ["Time", ({ created_at }) => <When at={created_at} />],
        ["Market", (match) => nameOf(match)],
        ["You", ({ side }) => (side === "Bid" ? "sold" : "bought")],
        ["Price", ({ price }) => formatPrice(price), "number"],
        ...MARKOUT_MINUTES.map((minutes, index): Column<Marked> => [
          `After ${minutes} min`,
          ({ markouts }: Marked) => {
            const moved = markouts[index] ?? null;
            return moved === null ? "–" : signed(moved);
          },
          "number",
        ]),
      ]}
    />
  );
}

async function mark(client: Client, match: Match): Promise<Marked> {
  const at = Date.parse(match.created_at);
  const markouts = await Promise.all(
    MARKOUT_MINUTES.map(async (minutes) => {
      const then = at + minutes * 60_000;
      if (then > Date.now()) return null;
      const { venue_id, asset_id } = match;
      const to = new Date(then).toISOString();
      const price = await lastPrice(client, { venue_id, asset_id }, { to });
      if (price === null) return null;
      return match.side === "Bid" ? match.price - price : price - match.price;
    }),
  );
  return { ...match, markouts };
}

function Reserves({ balances }: { balances: readonly Balance[] | undefined }) {
  const nameOf = useAssetName();
  const used = balances?.filter(({ pending_balance }) => pending_balance > 0n);
  return (
    <Table
      caption="Reserved for open quotes and withdrawals"
      rows={used}
      rowKey={({ venue_id, asset_id }) => `${venue_id} ${asset_id}`}
      empty="Nothing is reserved."
      columns={[
        ["Asset", (balance) => nameOf(balance)],
        ["Reserved", ({ pending_balance }) => formatUnits(pending_balance), "number"],
        [
          "Of all",
          ({ balance, pending_balance }) =>
            `${(pending_balance * 100n) / (balance + pending_balance)} %`,
          "number",
        ],
      ]}
    />
  );
}

/** The tape keeps 24 hours, so the last price of a quiet market is unknown. */
async function lastPrice(
  client: Client,
  asset: MarketAsset,
  before: { to?: string } = {},
): Promise<number | null> {
  const { items } = await client.rfq.trades({ ...asset, ...before, limit: 1 }).page();
  return items[0]?.price ?? null;
}
