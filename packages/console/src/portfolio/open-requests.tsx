/** The user's open requests. Their quotes are on the market's page. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useAssetName } from "../markets.ts";
import { marketHref } from "../router.ts";
import { useClient } from "../session/session.tsx";
import { ActionButton } from "../ui/button.tsx";
import { Countdown } from "../ui/countdown.tsx";
import { Table } from "../ui/table.tsx";
import { formatPrice, sizeOf } from "../units.ts";

const VERBS = { Bid: "Buy", Ask: "Sell", TwoWay: "Both prices" } as const;

export function OpenRequests() {
  const client = useClient();
  const queries = useQueryClient();
  const nameOf = useAssetName();
  const { data: requests } = useQuery({
    queryKey: ["my-requests"],
    queryFn: async () => (await client.rfq.myRequests({ limit: 50 }).page()).items,
  });
  if (requests?.length === 0) return null;
  return (
    <section className="card" aria-label="Open requests">
      <h2>Waiting for you</h2>
      <Table
        caption="Open requests"
        rows={requests}
        rowKey={({ request_id }) => request_id}
        empty=""
        columns={[
          {
            title: "Market",
            cell: (request) => <a href={marketHref(request)}>{nameOf(request)}</a>,
          },
          { title: "You asked", cell: (request) => `${VERBS[request.side]} ${sizeOf(request)}` },
          {
            title: "Quotes",
            cell: ({ quote_count: count, best_price: best }) =>
              `${count ?? 0}${typeof best !== "number" ? "" : `, best ${formatPrice(best)}`}`,
          },
          { title: "Ends in", cell: ({ expires_at }) => <Countdown until={expires_at} /> },
          {
            title: "Cancel",
            cell: (request) => (
              <ActionButton
                label="Cancel"
                name={`Cancel the request for ${nameOf(request)}`}
                run={async () => {
                  await client.rfq.cancelRequest({ request_id: request.request_id });
                  await queries.invalidateQueries({ queryKey: ["my-requests"] });
                }}
              />
            ),
          },
        ]}
      />
    </section>
  );
}
