/** Commands about a record in the archive have the same result as before it moved there. */
import { findCold, type RecordArchive, recordArchive } from "../archive/cold-records.ts";
import type { SealedRecord } from "../archive/record-page.ts";
import { type Config, config } from "../platform/config.ts";
import { errorFields, log } from "../platform/log.ts";
import { Problem, unavailable } from "../platform/problem.ts";
import { now } from "../platform/time.ts";
import { instantOf } from "../platform/uuid.ts";
import { windowsOf } from "../platform/windows.ts";
import {
  type Accept,
  type Command,
  recordNamedBy,
  refused,
  reject,
  type Result,
} from "./command.ts";
import { isWithin } from "./price-limit.ts";
import { cancelled, quoteNotOpen, requestMatched } from "./rejections.ts";
import { matchRow, quoteRow, requestRow } from "./sealed-rows.ts";

type Recalling = {
  readonly archive: RecordArchive;
  readonly settings: Pick<Config, "HOT_WINDOWS_DIVISOR">;
};

export function recalling(env: Env): Recalling {
  return { archive: recordArchive(env), settings: config(env) };
}

/** The result of a command that the book has carried out or refused. */
export async function recall(
  { archive, settings }: Recalling,
  command: Command,
  result: Result,
): Promise<Result> {
  try {
    if (result.ok || !UNKNOWN.has(result.problem.code) || command.op === "open_request")
      return result;
    // The id of a record has its time. A young one has not moved to the archive.
    if (instantOf(recordNamedBy(command).id) >= now() - windowsOf(settings).ended) return result;
    return (await recallUnknown(archive, command, result.problem.code)) ?? result;
  } catch (error) {
    if (error instanceof Problem) return refused(error);
    log("error", "rfq.recall_failed", { op: command.op, ...errorFields(error) });
    return refused(unavailable("none"));
  }
}

const UNKNOWN: ReadonlySet<string> = new Set(["request_unknown", "quote_unknown"]);

async function recallUnknown(
  archive: RecordArchive,
  command: Command,
  code: string,
): Promise<Result | undefined> {
  const { userId } = command.actor;
  if (command.op === "cancel_request" && code === "request_unknown")
    return recallCancelledRequest(archive, userId, command.requestId);
  if (command.op === "accept" || command.op === "accept_price")
    return recallMatch(archive, command);
  if (code !== "quote_unknown") return undefined;
  if (command.op === "cancel_quote") return recallQuote(archive, userId, command.quoteId);
  if (command.op === "place_quote" && command.replaces !== null) {
    const found = await recallQuote(archive, userId, command.replaces);
    return found?.ok === true ? quoteNotOpen(command.replaces, "cancelled", null) : found;
  }
  return undefined;
}

async function recallMatch(archive: RecordArchive, command: Accept): Promise<Result | undefined> {
  const { userId } = command.actor;
  const { kind, id } = recordNamedBy(command);
  const match = await findCold(archive, userId, { kind: "matches", by: `${kind}_id`, id });
  if (match === undefined) return undefined;
  const row = matchRow(match, userId);
  if (row.role !== "requester")
    return reject("not_request_owner", "Only the requester may accept a quote.");
  return command.op === "accept" || isWithin(row, command)
    ? { ok: true, kind: "match", row, replayed: true }
    : requestMatched(id, row.match_id);
}

/** What a cancel of the maker's old quote returns. */
async function recallQuote(
  archive: RecordArchive,
  userId: string,
  id: string,
): Promise<Result | undefined> {
  const record = await findCold(archive, userId, { kind: "quotes", by: "quote_id", id });
  if (record === undefined) return undefined;
  const { status } = quoteRow(record);
  if (status === "cancelled") return cancelled(id, { replayed: true });
  return quoteNotOpen(id, status, status === "accepted" ? endedBy(record) : null);
}

async function recallCancelledRequest(
  archive: RecordArchive,
  userId: string,
  id: string,
): Promise<Result | undefined> {
  const record = await findCold(archive, userId, { kind: "requests", by: "request_id", id });
  if (record === undefined) return undefined;
  const { status } = requestRow(record);
  if (status === "cancelled") return cancelled(id, { replayed: true });
  return status === "matched"
    ? requestMatched(id, endedBy(record))
    : reject("request_expired", `Request ${id} has expired.`);
}

function endedBy(record: SealedRecord): string | null {
  return "ended_by" in record ? record.ended_by : null;
}
