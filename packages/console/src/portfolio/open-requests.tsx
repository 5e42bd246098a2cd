/** The user's open requests. Their quotes are on the market's page. */
import { useAssetName } from "../names.ts";
import { marketHref } from "../router.ts";
import { useAct } from "../session/session.tsx";
import { ActionButton } from "../ui/actions.tsx";
import { AssetName, Countdown } from "../ui/values.tsx";
import { Part, Table } from "../ui/records.tsx";
import { formatPrice, roughPrice, sizeOf } from "../units.ts";
import { useMyRequests } from "./my-requests.ts";

const VERBS = { Bid: "Buy", Ask: "Sell", TwoWay: "Both prices" } as const;

export function OpenRequests() {
  const act = useAct("my-requests");
  const nameOf = useAssetName();
  const requests = useMyRequests();
  if (requests?.length === 0) return null;
  return (
    <Part title="Open requests">
      <Table
        caption="Open requests, newest first"
        rows={requests}
        rowKey={({ request_id }) => request_id}
        empty=""
        columns={[
          ["Market", (request) => <AssetName asset={request} />],
          ["You asked", (request) => `${VERBS[request.side]} ${sizeOf(request)}`],
          [
            "Quotes",
            ({ quote_count: count, best_price: best }) =>
              `${count ?? 0}${typeof best !== "number" ? "" : `, best ${roughPrice(best)}`}`,
          ],
          [
            "Takes",
            ({ accept_price: limit }) =>
              typeof limit === "number" ? `${formatPrice(limit)} or better` : "",
          ],
          ["Ends in", ({ expires_at }) => <Countdown until={expires_at} />],
          [
            "What to do",
            (request) => (
              <span className="row">
                {(request.quote_count ?? 0) === 0 ? null : (
                  <a className="button" href={marketHref(request)}>
                    See quotes<span className="sr"> for {nameOf(request)}</span>
                  </a>
                )}
                <ActionButton
                  label="Cancel"
                  name={`Cancel the request for ${nameOf(request)}`}
                  run={() => act((client) => client.rfq.cancelRequest(request))}
                />
              </span>
            ),
            "actions",
          ],
        ]}
      />
    </Part>
  );
}
