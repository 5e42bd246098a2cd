/**
 * A maker's safeguards: protections, cancel-after timers and armed sockets. A model decides from
 * the matches of each commit group whether a protection must trip in it, and nothing here uses the
 * service's conditions.
 */
import type { Actor } from "../../src/platform/actor.ts";
import { readUuid } from "../../src/platform/sql.ts";
import { ID_LAG_MS } from "../../src/platform/time.ts";
import { cancelAfter } from "../../src/rfq/cancel-after.ts";
import { resetProtection, saveProtection } from "../../src/rfq/protection.ts";
import type { Dice } from "../actors/dice.ts";
import { credentialOf } from "./people.ts";
import type { Scene } from "./scene.ts";
import type { Subscribers } from "./subscribers.ts";
import { Violation } from "./violation.ts";

export type SafeguardAction = "save_protection" | "reset_protection" | "cancel_after";

type Row = Readonly<Record<string, unknown>>;
type Counted = { readonly at: number; readonly usdc: bigint };

/** Instants that a credential's timer has passed, the latest of them. */
const KEPT_INSTANTS = 20;
/** Cron closes what an alarm has missed. */
const CLOSE_MS = 70_000;

const MATCHES = `SELECT hex(m.match_id) AS id, hex(m.maker_id) AS maker, m.at,
    CAST(m.usdc_amount AS TEXT) AS usdc, hex(q.credential) AS credential, q.opened_at
  FROM matches m JOIN quotes q ON q.quote_id = m.quote_id WHERE m.matched_group = ?`;
const PROTECTIONS = `SELECT hex(user_id) AS user, window_secs, max_matches,
    CAST(max_usdc AS TEXT) AS max_usdc, period, tripped_at, blocked_until,
    hex(tripped_by) AS tripped_by
  FROM protections`;

export class Safeguards {
  readonly #scene: Scene;
  readonly #subscribers: Subscribers;
  /** Protections after the last commit group, by user. */
  #before = new Map<string, Row>();
  /** What counts in the present period, by user. */
  readonly #counted = new Map<string, Counted[]>();
  /** When timers ran out, by credential. */
  readonly #passed = new Map<string, number[]>();

  constructor(scene: Scene, subscribers: Subscribers) {
    this.#scene = scene;
    this.#subscribers = subscribers;
    scene.database.onGroup = (seq) => this.#observe(() => this.#checkGroup(seq));
    scene.database.onTimers = () => this.#notePassed();
  }

  act(kind: SafeguardAction, name: string, dice: Dice): void {
    const { actor } = credentialOf(dice.pick(this.#scene.people.all), dice);
    this.#scene.start(name, dice, () =>
      this.#scene.credentials.tryCall(kind, actor, () => this.#call(kind, actor, dice)),
    );
  }

  async #call(kind: SafeguardAction, actor: Actor, dice: Dice): Promise<void> {
    const { env } = this.#scene;
    if (kind === "cancel_after") await cancelAfter(env, actor, dice.pick([0, 0, 5, 10, 60, 600]));
    else if (kind === "reset_protection") await resetProtection(env, actor);
    else
      await saveProtection(env, actor, {
        windowSecs: dice.pick([1, 10, 600]),
        maxMatches: dice.chance(0.8) ? dice.between(1, 2) : null,
        maxUsdc: dice.chance(0.4) ? BigInt(dice.between(1, 4_000_000)) : null,
        cooldownSecs: dice.chance(0.8) ? dice.between(1, 20) : null,
      });
  }

  /** Ends all of them, so that everybody trades. */
  calm(): void {
    for (const table of ["protections", "protection_counts", "cancel_timers"])
      this.#scene.database.rows(`DELETE FROM ${table}`);
    this.forget();
  }

  /** The database has lost what the model knows. */
  forget(): void {
    this.#before.clear();
    this.#counted.clear();
    this.#passed.clear();
  }

  /** At a quiet point. */
  check(): void {
    const { database, time } = this.#scene;
    const late = database.count(
      `SELECT count(*) FROM quotes q JOIN cancel_timers t ON t.credential = q.credential
        WHERE q.status = 'open' AND q.stuck_at IS NULL AND q.opened_at < t.cancel_at
          AND t.cancel_at < ?`,
      time.now - CLOSE_MS,
    );
    if (late > 0) throw new Violation("timer_closes [Q10]", `${late} quotes outlive their timer`);
    this.#checkArmed();
  }

  /** The end of the last armed socket of a key on a stream has cancelled the key's quotes. */
  #checkArmed(): void {
    const { database } = this.#scene;
    const sockets = this.#subscribers.all.filter(({ armed }) => armed);
    const ofStream = Map.groupBy(sockets, ({ stream, credential: { actor } }) =>
      actor.credential.kind === "api_key" ? `${actor.credential.apiKeyId} ${stream}` : "",
    );
    for (const [name, group] of ofStream) {
      if (name === "" || group.some(({ open }) => open)) continue;
      const endedAt = Math.max(...group.map((socket) => socket.endedAt ?? 0));
      const open = database.count(
        `SELECT count(*) FROM quotes WHERE credential = unhex(?) AND status = 'open'
          AND stuck_at IS NULL AND opened_at < ?`,
        (name.split(" ")[0] ?? "").replaceAll("-", ""),
        endedAt,
      );
      if (open > 0)
        throw new Violation("disconnect_cancels [Q11]", `${open} quotes of ${name} are open`);
    }
  }

  #observe(look: () => void): void {
    try {
      look();
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      this.#scene.fail(error);
    }
  }

  /** Called just before a statement that may move a timer, so that none is missed. */
  #notePassed(): void {
    const { database, time } = this.#scene;
    for (const { credential, at } of database.rows(
      "SELECT hex(credential) AS credential, cancel_at AS at FROM cancel_timers WHERE cancel_at <= ?",
      time.now,
    )) {
      const known = this.#passed.get(String(credential)) ?? [];
      if (!known.includes(Number(at)))
        this.#passed.set(String(credential), [...known, Number(at)].slice(-KEPT_INSTANTS));
    }
  }

  #checkGroup(seq: number): void {
    const { database } = this.#scene;
    const matches = database.rows(MATCHES, seq);
    const after = new Map(database.rows(PROTECTIONS).map((row) => [String(row["user"]), row]));
    for (const [maker, own] of Map.groupBy(matches, (match) => String(match["maker"])))
      this.#checkTrip(own, this.#before.get(maker), after.get(maker));
    const at = database.count("SELECT at FROM commit_groups WHERE seq = ?", seq);
    for (const row of after.values()) {
      this.#count(row, matches);
      this.#checkBlocked(row, at);
    }
    this.#before = after;
    for (const match of matches) this.#checkTimer(match);
    this.#checkPlaced(seq);
  }

  /** A protection trips with the match that reaches a limit, and with no other. */
  #checkTrip(matches: readonly Row[], before: Row | undefined, after: Row | undefined): void {
    if (before === undefined || after === undefined) return;
    const at = Number(matches[0]?.["at"]);
    const since = at - Number(before["window_secs"]) * 1_000;
    const earlier = (this.#counted.get(String(before["user"])) ?? []).filter(
      (counted) => counted.at > since,
    );
    const without = (id: unknown) => [
      ...earlier,
      ...matches.filter((m) => m["id"] !== id).map(countedOf),
    ];
    const reached = reaches(before, without(undefined));
    const trippedNow = matches.some(({ id }) => id === after["tripped_by"]);
    const about = JSON.stringify({ before, after, matches, earlier: earlier.length });
    if (reached !== trippedNow) throw new Violation("trips_at_its_limit [Q9]", about);
    if (trippedNow && reaches(before, without(after["tripped_by"])))
      throw new Violation("no_match_after_a_trip [Q9]", about);
  }

  /** Counts from the group that began the period, which saved, reset or tripped. */
  #count(row: Row, matches: readonly Row[]): void {
    const user = String(row["user"]);
    const before = this.#before.get(user);
    if (before === undefined || before["period"] !== row["period"]) this.#counted.set(user, []);
    else {
      const own = matches.filter(({ maker }) => maker === user).map(countedOf);
      this.#counted.set(user, [...(this.#counted.get(user) ?? []), ...own]);
    }
  }

  #checkBlocked(row: Row, at: number): void {
    const { user, tripped_at: trippedAt, blocked_until: until } = row;
    if (trippedAt === null || (until !== null && Number(until) <= at)) return;
    const open = this.#scene.database.count(
      "SELECT count(*) FROM quotes WHERE maker_id = unhex(?) AND status = 'open' AND stuck_at IS NULL",
      String(user),
    );
    if (open > 0)
      throw new Violation("tripped_maker_has_no_quotes [Q9]", `${open}: ${JSON.stringify(row)}`);
  }

  /** A match is before the timer of its quote, and before each one that the quote has outlived. */
  #checkTimer(match: Row): void {
    const [at, openedAt] = [Number(match["at"]), Number(match["opened_at"])];
    const credential = String(match["credential"]);
    const present = this.#scene.database
      .rows("SELECT cancel_at FROM cancel_timers WHERE credential = unhex(?)", credential)
      .map((row) => Number(row["cancel_at"]));
    const passed = (this.#passed.get(credential) ?? []).filter((instant) => instant > openedAt);
    const first = Math.min(...present, ...passed);
    if (first <= at)
      throw new Violation("no_match_after_the_timer [Q10]", `${JSON.stringify(match)}: ${first}`);
  }

  /** No quote is placed after the timer of its credential, or on a socket that has ended. */
  #checkPlaced(seq: number): void {
    const { database } = this.#scene;
    const placed = database.rows(
      `SELECT lower(hex(q.quote_id)) AS id, q.opened_at, t.cancel_at
        FROM quotes q LEFT JOIN cancel_timers t ON t.credential = q.credential
        WHERE q.quote_id >= (SELECT unhex(printf('%012x', at - ?)) FROM commit_groups WHERE seq = ?)
          AND q.opened_group = ?`,
      ID_LAG_MS,
      seq,
      seq,
    );
    for (const row of placed) {
      if (row["cancel_at"] !== null && Number(row["cancel_at"]) <= Number(row["opened_at"]))
        throw new Violation("no_quote_after_the_timer [Q10]", JSON.stringify(row));
      const socket = this.#scene.people.socketOf.get(readUuid(String(row["id"])));
      if (socket === undefined) continue;
      const live = database.count(
        "SELECT count(*) FROM armed_sockets WHERE socket_id = unhex(?)",
        socket.replaceAll("-", ""),
      );
      if (live === 0) throw new Violation("no_quote_after_its_socket [Q11]", JSON.stringify(row));
    }
  }
}

function countedOf(match: Row): Counted {
  return { at: Number(match["at"]), usdc: BigInt(String(match["usdc"])) };
}

function reaches(
  { max_matches: matches, max_usdc: usdc }: Row,
  counted: readonly Counted[],
): boolean {
  const sum = counted.reduce((total, one) => total + one.usdc, 0n);
  return (
    (matches !== null && counted.length >= Number(matches)) ||
    (typeof usdc === "string" && counted.length > 0 && sum >= BigInt(usdc))
  );
}
