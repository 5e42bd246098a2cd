/**
 * Commands that succeeded, and their records. Its owner reads what was placed: a match wherever it
 * is now, a request or quote in the database or in the export. So does a repeated command while the
 * database has its record.
 */
import { isDeepStrictEqual } from "node:util";
import { ownRecords } from "../../src/archive/ask-history.ts";
import { type PageQuery, type Page, type TimeId, timeIdPage } from "../../src/http/cursor.ts";
import { readUuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { OLDEST_READ } from "../../src/platform/windows.ts";
import { type Command, recordNamedBy, type Result } from "../../src/rfq/command.ts";
import { exportRecords, readDay } from "../../src/rfq/export-records.ts";
import { getMatch, getQuote, getRequest } from "../../src/rfq/get-records.ts";
import { listMatches } from "../../src/rfq/list-matches.ts";
import { listOwnQuotes } from "../../src/rfq/list-quotes.ts";
import { listOwnRequests } from "../../src/rfq/list-requests.ts";
import { matchView, quoteView, requestView } from "../../src/rfq/rfq-records.ts";
import { resultBody } from "../../src/rfq/result.ts";
import type { Dice } from "../actors/dice.ts";
import { repeated } from "./commands.ts";
import { credentialOf } from "./people.ts";
import type { Scene } from "./scene.ts";
import type { Trading } from "./trading.ts";
import { Violation } from "./violation.ts";

const ID_OF = { requests: "request_id", quotes: "quote_id" } as const;

type Success = Extract<Result, { ok: true }>;
type Old = { readonly command: Command; readonly result: Success; readonly at: number };
type View = Readonly<Record<string, unknown>>;

/** Of one quiet point. */
const TRIED = 12;
/** What changes after a record was made. */
const MOVING = [
  "status",
  "close_reason",
  "replaced_by",
  "best_price",
  "best_prices",
  "quote_count",
  "accept_price",
  "accept_side",
  // Only in the answer to a quote that its own commit accepted.
  "match",
];
/** The user's own records, newest first: matches wherever they are. */
const OWN = {
  requests: `SELECT lower(hex(request_id)) AS id FROM requests
    WHERE requester_id = unhex(:user) ORDER BY opened_at DESC, request_id DESC`,
  quotes: `SELECT lower(hex(quote_id)) AS id FROM quotes
    WHERE maker_id = unhex(:user) ORDER BY opened_at DESC, quote_id DESC`,
  matches: `SELECT lower(hex(match_id)) AS id FROM every_matches
    WHERE unhex(:user) IN (requester_id, maker_id) ORDER BY at DESC, match_id DESC`,
} as const;

export class OldRecords {
  readonly #scene: Scene;
  #old: Old[] = [];
  #putBackAt = 0;

  constructor(scene: Scene) {
    this.#scene = scene;
  }

  note(command: Command, result: Success): void {
    // It may be from the database that was put back: its answer was on the way.
    if (command.receivedAt < this.#putBackAt || result.kind === "accept_price") return;
    this.#old.push({ command, result, at: this.#scene.time.now });
  }

  /** The database was put back to this instant. */
  forgetAfter(instant: number): void {
    this.#old = this.#old.filter(({ at }) => at < instant);
    this.#putBackAt = this.#scene.time.now;
  }

  /** In a calm. */
  async check(trading: Trading, dice: Dice): Promise<void> {
    for (let tried = 0; tried < TRIED && this.#old.length > 0; tried++) {
      const old = dice.pick(this.#old);
      await this.#read(old);
      await this.#repeat(old, trading, dice);
    }
    const { userId } = dice.pick(this.#scene.people.all);
    const { env } = this.#scene;
    const limit = dice.between(5, 100);
    await this.#list("requests", userId, limit, async (page) =>
      idsOf(await listOwnRequests(env.DB, userId, { status: "all" }, page), "request_id"),
    );
    await this.#list("quotes", userId, limit, async (page) =>
      idsOf(await listOwnQuotes(env.DB, userId, {}, page), "quote_id"),
    );
    await this.#list("matches", userId, limit, async (page) =>
      idsOf(await listMatches(ownRecords(env, userId), userId, {}, page), "match_id"),
    );
  }

  /** The owner's record has the terms that were answered, and the status that it ended with. */
  async #read({ command, result }: Old): Promise<void> {
    const { env } = this.#scene;
    const { userId } = command.actor;
    if (result.kind === "request") {
      const id = readUuid(result.row.request_id);
      const read = this.#isHere("requests", id)
        ? await getRequest(env.DB, userId, id)
        : await this.#exported("requests", userId, id, result.row.opened_at);
      this.#compare(requestView(result.row), read);
    } else if (result.kind === "quote") {
      const id = readUuid(result.row.quote_id);
      const read = this.#isHere("quotes", id)
        ? await getQuote(env.DB, userId, id)
        : await this.#exported("quotes", userId, id, result.row.opened_at);
      this.#compare(quoteView(result.row), read);
    } else if (result.kind === "match") {
      const match_id = readUuid(result.row.match_id);
      const read = await getMatch(ownRecords(env, userId), userId, { match_id });
      this.#compare(matchView(result.row), read);
    }
  }

  #isHere(table: "requests" | "quotes", id: string): boolean {
    const column = table === "requests" ? "request_id" : "quote_id";
    const found = `SELECT count(*) FROM ${table} WHERE ${column} = unhex(?)`;
    return this.#scene.database.count(found, id.replaceAll("-", "")) > 0;
  }

  /** The record's line in the export of its day, all of whose blocks fit one call. */
  async #exported(
    kind: "requests" | "quotes",
    userId: string,
    id: string,
    openedAt: number,
  ): Promise<View> {
    const { env } = this.#scene;
    const records = { ...ownRecords(env, userId), bucket: env.ARCHIVE };
    const day = readDay(new Date(openedAt).toISOString().slice(0, 10)) ?? 0;
    const { body } = await exportRecords(records, userId, { kind, day, after: 0 });
    const parts: Uint8Array[] = [];
    for await (const part of body ?? []) parts.push(part);
    const line = Buffer.concat(parts)
      .toString()
      .split("\n")
      .filter((one) => one.startsWith(`{"${ID_OF[kind]}":"${id}"`));
    if (line.length !== 1) throw new Violation("exported_once", `${line.length} of ${kind} ${id}`);
    // Safe cast: each line is an object.
    return JSON.parse(line[0] ?? "") as View;
  }

  #compare(placed: View, read: View): void {
    const fixed = (view: View) => Object.entries(view).filter(([name]) => !MOVING.includes(name));
    const status = this.#statusOf(read);
    if (isDeepStrictEqual(fixed(placed), fixed(read)) && read["status"] === status) return;
    throw new Violation("read_as_placed", JSON.stringify({ placed, read, status }));
  }

  /** As the simulator has noted it. A match has one status. */
  #statusOf({ match_id: match, quote_id: quote, request_id: request }: View): string | undefined {
    if (match !== undefined) return "settled";
    const [table, column, id] =
      quote === undefined ? ["requests", "request_id", request] : ["quotes", "quote_id", quote];
    const [row] = this.#scene.database.rows(
      `SELECT iif(status = 'open' AND expires_at <= ?, 'expired', status) AS status
        FROM every_${table} WHERE ${column} = unhex(?)`,
      this.#scene.time.now,
      String(id).replaceAll("-", ""),
    );
    return row === undefined ? undefined : String(row["status"]);
  }

  /** The same command again gets its record as it is now, while the database has it. */
  async #repeat(old: Old, trading: Trading, dice: Dice): Promise<void> {
    if (this.#isForgotten(old)) return;
    const { command, result } = old;
    const by = this.#scene.people.all.find(({ userId }) => userId === command.actor.userId);
    if (by === undefined || this.#isFrozen(by.userId)) return;
    await this.#scene.credentials.refresh(by);
    const sent = { actor: credentialOf(by, dice).actor, receivedAt: this.#scene.time.now };
    const again = repeated({ ...command, ...sent, socketId: undefined }, uuidv7());
    if (again === undefined) return;
    const now = await trading.carryOut(again);
    if (!now.ok || !now.replayed || now.kind !== result.kind)
      throw new Violation("repeat_is_a_replay", JSON.stringify({ again, now, result }));
    if (result.kind !== "cancelled") this.#compare(viewOf(result), viewOf(now));
    else if (!isDeepStrictEqual(now, { ...result, replayed: true }))
      throw new Violation("repeat_is_answered_as_before", JSON.stringify({ again, now, result }));
  }

  /** A key is remembered for an hour, and an id as long as its record is in the database. */
  #isForgotten({ command, result, at }: Old): boolean {
    if (result.kind === "request" || result.kind === "quote") {
      if (at < this.#scene.time.now - OLDEST_READ.replayByKey.ms) return true;
      return result.kind === "request"
        ? !this.#isHere("requests", result.row.request_id)
        : !this.#isHere("quotes", result.row.quote_id);
    }
    if (command.op === "open_request" || command.op === "place_quote") return false;
    const { kind, id } = recordNamedBy(command);
    if (this.#isHere(`${kind}s`, id)) return false;
    const found = `SELECT count(*) FROM matches WHERE ${kind}_id = unhex(?)`;
    return (
      result.kind !== "match" || this.#scene.database.count(found, id.replaceAll("-", "")) === 0
    );
  }

  #isFrozen(userId: string): boolean {
    const id = userId.replaceAll("-", "");
    const frozen = "SELECT count(*) FROM users WHERE user_id = unhex(?) AND frozen_at IS NOT NULL";
    return this.#scene.database.count(frozen, id) > 0;
  }

  async #list(
    kind: keyof typeof OWN,
    userId: string,
    limit: number,
    read: (page: PageQuery<TimeId>) => Promise<{ ids: string[]; next: string | null }>,
  ): Promise<void> {
    const listed: string[] = [];
    let next: string | null = null;
    do {
      const last_cursor = next === null ? undefined : timeIdPage.last_cursor.parse(next);
      const page = await read({ limit, last_cursor });
      listed.push(...page.ids);
      next = page.next;
    } while (next !== null);
    const user = userId.replaceAll("-", "");
    const own = this.#scene.database.rows(OWN[kind].replace(":user", `'${user}'`));
    const expected = own.map(({ id }) => String(id));
    if (isDeepStrictEqual(listed, expected)) return;
    const wrong = expected.findIndex((id, index) => id !== listed[index]);
    throw new Violation(
      "list_is_complete",
      `${kind} of ${userId}: ${listed.length} of ${expected.length}, ${listed[wrong]} instead of ` +
        expected[wrong],
    );
  }
}

function viewOf(result: Success): View {
  // Safe cast: every body is an object.
  return resultBody(result) as View;
}

function idsOf(page: Page<View>, name: string): { ids: string[]; next: string | null } {
  const ids = page.items.map((item) => String(item[name]).replaceAll("-", ""));
  return { ids, next: page.next_cursor };
}
