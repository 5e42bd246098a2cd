/** Sends a command to the book that orders it. REST routes and sockets both use it. */
import { errorFields, log } from "../platform/log.ts";
import { unavailable } from "../platform/problem.ts";
import {
  type Result,
  type Command,
  type Named,
  type PlaceQuote,
  recordNamedBy,
  refused,
  reject,
} from "./command.ts";
import { limitRefusals } from "./refusals.ts";
import { all, readUuid, type Sql, sql, uuids } from "../platform/sql.ts";
import { bookObject } from "../streams/notify.ts";
import { now, sleep } from "../platform/time.ts";

/** A record's book never changes, so the isolate keeps it. A full cache drops its oldest half. */
const books = new Map<string, string>();
const MAX_CACHED_BOOKS = 50_000;

/** Unknown ids and when to look for them again, in Unix milliseconds. */
const unknownIds = new Map<string, number>();
const MAX_UNKNOWN_IDS = 10_000;
/** An id is known only once its record is committed, so this hides no record from its user. */
const UNKNOWN_MS = 1_000;

/** A book's object, as far as a command needs it. */
export type Book = {
  readonly asset: string;
  submit(command: Command): Promise<Result>;
  submitQuotes(commands: readonly PlaceQuote[]): Promise<readonly Result[]>;
};

/** What an object with sockets brings to its commands. */
export type Submitter = {
  /** The calling book. It calls itself directly, because its stub would cost another call. */
  readonly own?: Book | undefined;
  readonly find: FindBook;
};

export function submitCommand(
  env: Env,
  command: Command,
  submitter: Submitter = { find: findAlone(env.DB) },
): Promise<Result> {
  return limitRefusals(env, command, () => sendToBook(env, command, submitter));
}

async function sendToBook(env: Env, command: Command, { own, find }: Submitter): Promise<Result> {
  let asset: string | undefined;
  if (command.op === "open_request") {
    asset = command.asset;
    rememberBook(command.requestId, asset);
  } else {
    const named = recordNamedBy(command);
    const { kind, id } = named;
    try {
      asset = await find(named);
    } catch (error) {
      log("error", "rfq.book_not_found", { op: command.op, ...errorFields(error) });
      return refused(unavailable("none"));
    }
    if (asset === undefined) return reject(`${kind}_unknown`, `There is no ${kind} ${id}.`);
  }
  try {
    const result: Result = await (own?.asset === asset
      ? own.submit(command)
      : bookObject(env, asset).submit(command));
    if (result.ok && command.op === "place_quote") rememberBook(command.quoteId, asset);
    return result;
  } catch (error) {
    log("error", "rfq.book_unreachable", { asset, op: command.op, ...errorFields(error) });
    return refused(unavailable("unknown"));
  }
}

type FindBook = (named: Named) => Promise<string | undefined>;

const findAlone =
  (db: D1Database): FindBook =>
  async ({ kind, id }) =>
    (await booksOf(db, kind, [id])).get(id);

/** A read that takes longer may hang, so the next one does not wait for it. */
const NEXT_READ_MS = 500;

/**
 * Ids that one object asks for while a read is in flight share the next one, because a burst of
 * frames with unknown ids would make a call of D1 of each.
 */
export function findTogether(db: D1Database): FindBook {
  const waiting = new Map<Named["kind"], { ids: string[]; found: ReturnType<typeof booksOf> }>();
  let last: Promise<unknown> = Promise.resolve();
  const nextRead = (kind: Named["kind"]) => {
    const ids: string[] = [];
    const found = last.then(() => {
      waiting.delete(kind);
      return booksOf(db, kind, ids);
    });
    last = Promise.race([found.catch(() => {}), sleep(NEXT_READ_MS)]);
    return { ids, found };
  };
  return async ({ kind, id }) => {
    const known = books.get(id);
    if (known !== undefined) return known;
    const next = waiting.get(kind) ?? nextRead(kind);
    waiting.set(kind, next);
    next.ids.push(id);
    return (await next.found).get(id);
  };
}

/** The books of records. Ids of unknown ones are omitted. */
export async function booksOf(
  db: D1Database,
  kind: Named["kind"],
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  const unread = new Set<string>();
  for (const id of ids) {
    const known = books.get(id);
    if (known !== undefined) found.set(id, known);
    else if ((unknownIds.get(id) ?? 0) <= now()) unread.add(id);
  }
  if (unread.size === 0) return found;
  for (const row of await all<BookRow>(db, BOOKS_OF[kind](uuids([...unread])))) {
    const id = readUuid(row.id);
    rememberBook(id, row.asset);
    found.set(id, row.asset);
    unread.delete(id);
  }
  for (const id of unread) {
    if (unknownIds.size >= MAX_UNKNOWN_IDS) unknownIds.clear();
    unknownIds.set(id, now() + UNKNOWN_MS);
  }
  return found;
}

type BookRow = { readonly id: string; readonly asset: string };

const BOOKS_OF: Readonly<Record<Named["kind"], (ids: Sql) => Sql>> = {
  // A matched request and an accepted quote leave before their match, which serves a repeated
  // accept.
  request: (ids) => sql`SELECT hex(request_id) AS id, asset FROM requests
    WHERE request_id IN (${ids})
    UNION ALL SELECT hex(request_id), asset FROM matches WHERE request_id IN (${ids})`,
  quote: (ids) => sql`SELECT hex(quote_id) AS id, asset FROM quotes WHERE quote_id IN (${ids})
    UNION ALL SELECT hex(quote_id), asset FROM matches WHERE quote_id IN (${ids})`,
};

export function rememberBook(id: string, asset: string): void {
  if (books.size >= MAX_CACHED_BOOKS) {
    for (const old of [...books.keys()].slice(0, MAX_CACHED_BOOKS / 2)) books.delete(old);
  }
  books.set(id, asset);
}
