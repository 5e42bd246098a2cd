/** Commands of the users, and what their senders learn of them. */
import { REQUEST_SIDES, SIDES } from "../../src/assets/asset-fields.ts";
import type { Actor } from "../../src/platform/actor.ts";
import { readUuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { cancelQuotes } from "../../src/rfq/cancel-quotes.ts";
import { Problem } from "../../src/platform/problem.ts";
import type { Command, PlaceQuote, Result } from "../../src/rfq/command.ts";
import { placeQuotes } from "../../src/rfq/place-quotes.ts";
import { submitCommand } from "../../src/rfq/submit.ts";
import type { Dice } from "../actors/dice.ts";
import { openRequest, placeQuote, repeated } from "./commands.ts";
import type { OldRecords } from "./old-records.ts";
import { BOOKS, credentialOf, type Person, recent, type Sent } from "./people.ts";
import type { Step } from "./plan.ts";
import type { Scene } from "./scene.ts";
import { Process } from "./virtual-time.ts";
import { openRequestTerms, placeQuoteTerms } from "../actors/terms.ts";

const LABELS = [null, "a", "b"];
/** Of one call. */
const MAX_QUOTES = 6;
/** The number of a step that is not of the plan. */
const CALM_STEP = -1;

/** Who sends a command, and when. */
type Origin = Pick<Command, "actor" | "receivedAt">;

export class Trading {
  readonly #scene: Scene;
  readonly #old: OldRecords;
  /** Calls of Workers that have not answered yet. */
  readonly #workers = new Set<{ readonly process: Process; readonly sent: readonly Sent[] }>();

  constructor(scene: Scene, old: OldRecords) {
    this.#scene = scene;
    this.#old = old;
  }

  /** Sends a command of this kind, if there is something that it can name. */
  act(kind: Step["kind"], step: Step, dice: Dice): void {
    const command = this.#commandOf(kind, dice);
    if (command !== undefined) this.#send(step, dice, command);
  }

  killWorker(dice: Dice): void {
    const running = [...this.#workers];
    if (running.length === 0) return;
    const worker = dice.pick(running);
    this.#workers.delete(worker);
    worker.process.alive = false;
    for (const sent of worker.sent) sent.killed = true;
  }

  /** The client did not hear the answer, or could not wait: the same command with a new id. */
  repeat(step: Step, dice: Dice): void {
    const sent = recent(dice, this.#scene.people.sent);
    if (sent === undefined) return;
    const again = repeated({ ...sent.command, receivedAt: this.#scene.time.now }, this.#id(dice));
    if (again !== undefined) this.#send(step, dice, again);
  }

  cancelQuotes(step: Step, dice: Dice): void {
    const person = dice.pick(this.#scene.people.all);
    const { actor } = credentialOf(person, dice);
    const { venue } = dice.pick(BOOKS);
    this.#scene.start(`cancel_quotes@${step.index}`, dice, async () => {
      const which = dice.chance(0.5) ? {} : { venue };
      await this.#scene.credentials.call("cancel_quotes", actor, () =>
        cancelQuotes(this.#scene.env, actor, which),
      );
    });
  }

  #commandOf(kind: Step["kind"], dice: Dice): Command | undefined {
    const anyone = dice.pick(this.#scene.people.all);
    const stranger = dice.chance(0.1);
    const key = dice.chance(0.3) ? `k${dice.between(1, 1e9)}` : undefined;
    /** What its owner would send, or now and then anyone. */
    const sentBy = (owner: Person | undefined) => ({
      actor: credentialOf(stranger ? anyone : (owner ?? anyone), dice).actor,
      receivedAt: this.#scene.time.now,
    });
    switch (kind) {
      case "open_request":
        return this.#openRequest(sentBy(anyone), dice, key);
      case "place_quote":
        return this.#placeQuote(sentBy, dice, key);
      case "cancel_request":
      case "set_accept_price": {
        const request = this.#someRequest(dice);
        if (request === undefined) return undefined;
        const operationId = this.#id(dice);
        const sent = { ...sentBy(request.by), operationId, requestId: request.id };
        if (kind === "cancel_request") return { op: kind, ...sent };
        const price = dice.chance(0.7) ? dice.between(1, 1_000_000) : null;
        return { op: kind, ...sent, price, side: dice.pick([null, ...SIDES]) };
      }
      default: {
        const { knownQuotes, quotes, requests } = this.#scene.people;
        const known = dice.chance(0.9) && knownQuotes.length > 0;
        const quote = recent(dice, known ? knownQuotes : quotes);
        if (quote === undefined) return undefined;
        const quoteId = quote.id;
        if (kind === "cancel_quote")
          return { op: kind, ...sentBy(quote.by), operationId: this.#id(dice), quoteId };
        const request = requests.find(({ id }) => id === quote.requestId);
        const accept = { ...sentBy(request?.by), matchId: this.#id(dice) };
        if (dice.chance(0.5)) return { op: "accept", ...accept, quoteId };
        const { requestId } = quote;
        const [price, side] = [dice.between(1, 1_000_000), dice.pick([null, ...SIDES])];
        return { op: "accept_price", ...accept, requestId, price, side };
      }
    }
  }

  #someRequest(dice: Dice) {
    const { knownRequests, requests } = this.#scene.people;
    const known = dice.chance(0.9) && knownRequests.length > 0;
    return recent(dice, known ? knownRequests : requests);
  }

  #openRequest(sent: Origin, dice: Dice, key: string | undefined): Command {
    const side = dice.chance(0.2) ? dice.pick(REQUEST_SIDES) : dice.pick(SIDES);
    const own = side === "TwoWay" ? dice.pick(SIDES) : side;
    const terms = openRequestTerms({
      asset: dice.pick(BOOKS).asset,
      ...sizeOf(dice),
      side,
      accept: dice.chance(0.2) ? { price: dice.between(1, 1_000_000), side: own } : undefined,
      disclosed: dice.chance(0.5),
      expiresInSecs: dice.pick([1, 2, 10, 60, 300, 600]),
      label: dice.pick(LABELS),
    });
    return openRequest(sent, this.#id(dice), terms, key);
  }

  #placeQuote(
    sentBy: (owner: Person | undefined) => Origin,
    dice: Dice,
    key: string | undefined,
  ): Command | undefined {
    const request = this.#someRequest(dice);
    if (request === undefined) return undefined;
    const replaced = dice.chance(0.2) ? recent(dice, this.#scene.people.knownQuotes) : undefined;
    const terms = placeQuoteTerms({
      requestId: replaced?.requestId ?? request.id,
      price: dice.between(1, 1_000_000),
      side: dice.chance(0.8) ? null : dice.pick(SIDES),
      replaces: replaced?.id ?? null,
      expiresInSecs: dice.pick([1, 2, 5, 30, 60, 300]),
      label: dice.pick(LABELS),
    });
    const sent = sentBy(replaced?.by);
    const quoteId = this.#id(dice);
    return placeQuote(
      { ...sent, ...this.#onSocket(sent.actor, quoteId, dice) },
      quoteId,
      terms,
      key,
    );
  }

  /** Sometimes the quote arrives on an armed socket of its key, if there is one. */
  #onSocket({ credential }: Actor, quoteId: string, dice: Dice): { readonly socketId?: string } {
    if (credential.kind !== "api_key" || dice.chance(0.5)) return {};
    const [row] = this.#scene.database.rows(
      `SELECT lower(hex(socket_id)) AS id FROM armed_sockets
        WHERE api_key_id = unhex(?) AND taken_over_at IS NULL ORDER BY armed_id DESC LIMIT 1`,
      credential.apiKeyId.replaceAll("-", ""),
    );
    if (row === undefined) return {};
    const socketId = readUuid(String(row["id"]));
    this.#scene.people.socketOf.set(quoteId, socketId);
    return { socketId };
  }

  /** A UUID v7 from the step's own dice. */
  #id(dice: Dice): string {
    return this.#scene.time.runAs(new Process("id", dice), () => uuidv7());
  }

  /** Several quotes of one user in one call. */
  severalQuotes(step: Step, dice: Dice): void {
    const { env } = this.#scene;
    const commands: PlaceQuote[] = [];
    for (let count = dice.between(1, MAX_QUOTES); count > 0; count--) {
      const command = this.#commandOf("place_quote", dice);
      if (command?.op === "place_quote") commands.push(command);
    }
    const [first] = commands;
    if (first === undefined) return;
    const { actor } = first;
    const own = commands.map((command) => ({ ...command, actor }));
    this.#submit(step, dice, own, () => placeQuotes(env, actor, own));
  }

  #send(step: Step, dice: Dice, command: Command): void {
    this.#submit(step, dice, [command], async () => [
      await submitCommand(this.#scene.env, command),
    ]);
  }

  /** Sends a command and returns its result. */
  async carryOut(command: Command): Promise<Result> {
    const sent = this.#noteSent([command], CALM_STEP);
    await this.#settle(sent, async () => [await submitCommand(this.#scene.env, command)]);
    const result = sent[0]?.result;
    if (result === undefined) throw new Error("the command has no result");
    return result;
  }

  #submit(
    step: Step,
    dice: Dice,
    commands: readonly Command[],
    submit: () => Promise<readonly Result[]>,
  ): void {
    const sent = this.#noteSent(commands, step.index);
    const worker: { process: Process; readonly sent: readonly Sent[] } = {
      process: new Process("none", dice),
      sent,
    };
    const name = `${commands.length > 1 ? "quotes" : commands[0]?.op}@${step.index}`;
    worker.process = this.#scene.start(name, dice, async () => {
      await this.#settle(sent, submit);
      this.#workers.delete(worker);
    });
    this.#workers.add(worker);
  }

  #noteSent(commands: readonly Command[], step: number): readonly Sent[] {
    const people = this.#scene.people;
    const sentAt = this.#scene.time.now;
    const sent = commands.map((command): Sent => {
      const by = people.all.find(({ userId }) => userId === command.actor.userId);
      if (by !== undefined) people.remember(command, by);
      return { command, sentAt, step };
    });
    people.sent.push(...sent);
    people.commands += commands.length;
    return sent;
  }

  async #settle(sent: readonly Sent[], submit: () => Promise<readonly Result[]>): Promise<void> {
    const { time } = this.#scene;
    const results = await submit().catch(refusedAll(sent.map(({ command }) => command)));
    for (const [index, one] of sent.entries()) {
      const result = results[index];
      if (result === undefined) continue;
      one.result = result;
      one.answeredAt = time.now;
      if (result.ok) {
        this.#scene.people.confirm(one.command);
        this.#old.note(one.command, result);
      }
      const code = result.ok ? undefined : result.problem.code;
      this.#scene.credentials.answered(one.command.op, one.command.actor, code);
      time.note(code ?? "ok");
    }
  }
}

/** A call that is refused as a whole. Any other error is one of the program. */
function refusedAll(commands: readonly Command[]): (error: unknown) => readonly Result[] {
  return (error) => {
    if (!(error instanceof Problem)) throw error;
    return commands.map(() => ({ ok: false, problem: error.data }));
  };
}

function sizeOf(dice: Dice): { amount: string | null; usdcAmount: string | null } {
  const units = String(dice.between(1, 5_000_000));
  return dice.chance(0.7)
    ? { amount: units, usdcAmount: null }
    : { amount: null, usdcAmount: units };
}
