/**
 * Commands that succeeded, and their records. Wherever a record is now, its owner reads what was
 * placed, and so does a repeated command.
 */
import { isDeepStrictEqual } from "node:util";
import { recordArchive } from "../../src/archive/cold-records.ts";
import { type PageQuery, type Page, type TimeId, timeIdPage } from "../../src/http/cursor.ts";
import { readUuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { OLDEST_READ } from "../../src/platform/windows.ts";
import type { Command, Result } from "../../src/rfq/command.ts";
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
/** The user's own records, newest first, wherever they are. */
const OWN = {
  requests: `SELECT lower(hex(request_id)) AS id FROM every_requests
    WHERE requester_id = unhex(:user) ORDER BY opened_at DESC, request_id DESC`,
  quotes: `SELECT lower(hex(quote_id)) AS id FROM every_quotes
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
    const archive = recordArchive(this.#scene.env);
    const limit = dice.between(5, 100);
    await this.#list("requests", userId, limit, async (page) =>
      idsOf(await listOwnRequests(archive, userId, { status: "all" }, page), "request_id"),
    );
    await this.#list("quotes", userId, limit, async (page) =>
      idsOf(await listOwnQuotes(archive, userId, {}, page), "quote_id"),
    );
    await this.#list("matches", userId, limit, async (page) =>
      idsOf(await listMatches(archive, userId, {}, page), "match_id"),
    );
  }

  /** The owner's record has the terms that were answered, and the status that it ended with. */
  async #read({ command, result }: Old): Promise<void> {
    const archive = recordArchive(this.#scene.env);
    const { userId } = command.actor;
    if (result.kind === "request") {
      const id = readUuid(result.row.request_id);
      this.#compare(requestView(result.row), await getRequest(archive, userId, id));
    } else if (result.kind === "quote") {
      const id = readUuid(result.row.quote_id);
      this.#compare(quoteView(result.row), await getQuote(archive, userId, id));
    } else if (result.kind === "match") {
      const match_id = readUuid(result.row.match_id);
      this.#compare(matchView(result.row), await getMatch(archive, userId, { match_id }));
    }
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

  /** The same command again gets its record as it is now, also if it has left the database. */
  async #repeat({ command, result, at }: Old, trading: Trading, dice: Dice): Promise<void> {
    if (this.#isKeyFree(result, at)) return;
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

  /** A key is remembered for an hour, and at most as long as its record is in the database. */
  #isKeyFree(result: Success, at: number): boolean {
    if (result.kind !== "request" && result.kind !== "quote") return false;
    if (at < this.#scene.time.now - OLDEST_READ.replayByKey.ms) return true;
    const [table, id] =
      result.kind === "request"
        ? ["requests WHERE request_id", result.row.request_id]
        : ["quotes WHERE quote_id", result.row.quote_id];
    return this.#scene.database.count(`SELECT count(*) FROM ${table} = unhex(?)`, id) === 0;
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
