/** Logged events as wire messages. Rendered once per event, whatever the number of sockets. */
import {
  depositView,
  type DepositRow,
  withdrawalView,
  type WithdrawalRow,
} from "../custody/records.ts";
import { readUuid } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import {
  matchView,
  type MatchRow,
  quoteView,
  type QuoteRow,
  requestView,
  type RequestRow,
} from "../rfq/records.ts";
import type { EventType, LoggedEvent } from "./event-log.ts";

export function renderEvent(event: LoggedEvent): string {
  const { type, stream, seq, at, body } = event;
  return JSON.stringify({ type, stream, seq, at: toWireTime(at), data: dataOf(type, body) });
}

/** `hello`, `snapshot` and `resync` carry the stream's last number without consuming one. */
export function renderControl(
  type: "hello" | "snapshot" | "resync",
  stream: string,
  seq: number,
  data: unknown,
): string {
  return JSON.stringify({ type, stream, seq, at: toWireTime(Date.now()), data });
}

function dataOf(type: EventType, body: string): unknown {
  switch (type) {
    case "request.opened":
      return requestView(stored<RequestRow>(body));
    case "quote.opened":
    case "quote.received":
      return quoteView(stored<QuoteRow>(body));
    case "request.closed":
    case "quote.closed":
      return withUuids(stored<Record<string, string>>(body));
    case "match.created":
      return matchView(stored<MatchRow>(body));
    case "deposit.detected":
    case "deposit.credited":
    case "deposit.orphaned":
    case "deposit.quarantined":
      return depositView(stored<DepositRow>(body));
    case "withdrawal.queued":
    case "withdrawal.submitted":
    case "withdrawal.settled":
    case "withdrawal.failed":
      return withdrawalView(stored<WithdrawalRow>(body));
    case "account.notice":
      return stored<unknown>(body);
  }
}

function withUuids(row: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      name.endsWith("_id") ? readUuid(value) : value,
    ]),
  );
}

/** Bodies are our own `json_object` of the very columns that the row type lists. */
function stored<Row>(body: string): Row {
  return JSON.parse(body) as Row;
}
