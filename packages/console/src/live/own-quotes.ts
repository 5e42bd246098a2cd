import { useQueryClient } from "@tanstack/react-query";
import { useRead } from "../session/use-service.ts";
import { OPEN_KEPT, type OwnQuotes } from "./quote-events.ts";

export const OWN_QUOTES = ["my-quotes"];
/** Followed by the request's id. */
export const RECEIVED_QUOTES = ["quotes"];
const NONE: OwnQuotes = { open: [], ended: [] };

/** Read once, then kept current by the account's stream, which alone has the price that won. */
export function useOwnQuotes(): OwnQuotes {
  const queries = useQueryClient();
  const read = useRead(OWN_QUOTES, async (client): Promise<OwnQuotes> => {
    const { items } = await client.rfq.myQuotes({ status: "open", limit: OPEN_KEPT }).page();
    return { open: items, ended: queries.getQueryData<OwnQuotes>(OWN_QUOTES)?.ended ?? [] };
  });
  return read ?? NONE;
}
