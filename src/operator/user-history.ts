/** What a user can read of their own past, from the database and the archive, for disputes. */
import { recordArchive } from "../archive/cold-records.ts";
import { timeIdPage } from "../http/cursor.ts";
import { listMatches } from "../rfq/list-matches.ts";
import { listOwnQuotes } from "../rfq/list-quotes.ts";
import { listOwnRequests } from "../rfq/list-requests.ts";
import { argument, fieldOption, limitOption, type OperatorContext } from "./context.ts";
import { invalidRequest } from "../platform/problem.ts";
import { userOf } from "./users.ts";

/** A page of `items`, newest first, and the `next_cursor` for `--cursor`, or null. */
export async function history(context: OperatorContext): Promise<unknown> {
  const kind = argument(context, "kind");
  const archive = recordArchive(context.env);
  const userId = await userOf(context);
  const cursor = context.options["cursor"];
  const page = {
    limit: limitOption(context),
    ...(cursor === undefined
      ? {}
      : { last_cursor: fieldOption(context, "cursor", timeIdPage.last_cursor) }),
  };
  if (kind === "requests") return listOwnRequests(archive, userId, { status: "all" }, page);
  if (kind === "quotes") return listOwnQuotes(archive, userId, {}, page);
  if (kind === "matches") return listMatches(archive, userId, {}, page);
  throw invalidRequest([{ path: "kind", message: "must be requests, quotes or matches" }]);
}
