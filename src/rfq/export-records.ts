/**
 * GET /rfq/export-records: the caller's requests or quotes that were opened on a day and ended, as
 * lines of JSON. Each call streams a bounded number of the archive's blocks. Its last line has the
 * cursor of the next call, so a response without that line is incomplete.
 */
import * as z from "zod";
import type { OwnRecords } from "../archive/ask-history.ts";
import {
  type ExportedBlock,
  exportedBlocks,
  type ExportedKind,
  readExported,
} from "../archive/exported-blocks.ts";
import { encodeCursor, examining, nameCursor, pageFields } from "../http/cursor.ts";
import { unreachable } from "../ledger/old-rows.ts";
import { errorFields, log } from "../platform/log.ts";
import { quoteView, requestView } from "./rfq-records.ts";
import { quoteRow, requestRow } from "./sealed-rows.ts";

export const EXPORT_OPERATION = "exportRecords";
export const NDJSON = "application/x-ndjson";

/** Blocks of a call, of which each is read from R2, and their bytes as JSON unless one has more. */
const MAX_BLOCKS = 200;
const MAX_BYTES = 16_000_000;
const DAY_MS = 86_400_000;

/** A place in the export: the seal that was read last. */
export const sealCursor = pageFields(
  z.tuple([z.int().min(1)]).transform(([seal]) => seal),
).last_cursor;

/** The start of a day as `YYYY-MM-DD`. Undefined if there is no such day. */
export function readDay(text: string): number | undefined {
  const at = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  const isDay = !Number.isNaN(at) && new Date(at).toISOString().startsWith(text);
  return isDay ? at : undefined;
}

type Bucket = Pick<R2Bucket, "get">;
type Day = { readonly from: number; readonly to: number };

export type ExportRequest = {
  readonly kind: ExportedKind;
  /** The start of a UTC day. */
  readonly day: number;
  /** The seal after which the call begins. */
  readonly after: number;
};

export async function exportRecords(
  records: OwnRecords & { readonly bucket: Bucket },
  userId: string,
  { kind, day, after }: ExportRequest,
): Promise<Response> {
  const range = { from: day, to: day + DAY_MS - 1, after, limit: MAX_BLOCKS + 1 };
  const found = await exportedBlocks(records, userId, kind, range);
  const blocks = found.slice(0, countWithin(found));
  const last = found.length > blocks.length ? blocks.at(-1) : undefined;
  const next = last && nameCursor(EXPORT_OPERATION, encodeCursor([last.id.number]));
  const read = (block: ExportedBlock) => linesOf(records.bucket, kind, block, range);
  const [head, ...rest] = blocks;
  // After the first line an error can only break the response.
  const text = head === undefined ? "" : await read(head).catch(refuse);
  const rows = blocks.reduce((sum, { block }) => sum + block.count, 0);
  return examining(
    new Response(stream(text, rest, read, `${JSON.stringify({ next_cursor: next ?? null })}\n`), {
      headers: { "content-type": NDJSON },
    }),
    rows,
  );
}

function countWithin(found: readonly ExportedBlock[]): number {
  let bytes = 0;
  const beyond = found.findIndex(({ block }, place) => {
    bytes += block.contentLength;
    return place > 0 && (place === MAX_BLOCKS || bytes > MAX_BYTES);
  });
  return beyond < 0 ? found.length : beyond;
}

function stream(
  head: string,
  rest: ExportedBlock[],
  read: (block: ExportedBlock) => Promise<string>,
  end: string,
): ReadableStream<Uint8Array> {
  const text = new TextEncoder();
  return new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(text.encode(head)),
    pull: async (controller) => {
      const next = rest.shift();
      controller.enqueue(text.encode(next === undefined ? end : await read(next)));
      if (next === undefined) controller.close();
    },
  });
}

/** A block may have records of other days, too. */
async function linesOf(
  bucket: Bucket,
  kind: ExportedKind,
  block: ExportedBlock,
  day: Day,
): Promise<string> {
  const views = await exportedViews(bucket, kind, block, day);
  return views.map((view) => `${JSON.stringify(view)}\n`).join("");
}

/** The records of a block that were opened in a period, as their owner saw them at their end. */
export async function exportedViews(
  bucket: Bucket,
  kind: ExportedKind,
  block: ExportedBlock,
  { from, to }: Day,
): Promise<unknown[]> {
  const isWithin = (row: { readonly opened_at: number }) =>
    row.opened_at >= from && row.opened_at <= to;
  return kind === "requests"
    ? (await readExported(bucket, kind, block))
        .filter(isWithin)
        .map((row) => requestView(requestRow(row)))
    : (await readExported(bucket, kind, block))
        .filter(isWithin)
        .map((row) => quoteView(quoteRow(row)));
}

function refuse(error: unknown): never {
  log("error", "rfq.export_failed", errorFields(error));
  throw unreachable();
}
