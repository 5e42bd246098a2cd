/** Clients that subscribe to streams, leave and come back. */
import { consumeTicket, issueTicket } from "../../src/auth/ws-ticket.ts";
import { config } from "../../src/platform/config.ts";
import { accountStream, bookStream, venueStream } from "../../src/streams/event-log.ts";
import { streamObject } from "../../src/streams/notify.ts";
import { ACTOR_HEADER } from "../../src/streams/socket.ts";
import type { Dice } from "../actors/dice.ts";
import { BOOKS, credentialOf, type Person } from "./people.ts";
import type { Step } from "./plan.ts";
import type { Scene } from "./scene.ts";
import type { ClientEnd } from "./sockets.ts";
import { type Subscriber, Subscribers } from "./subscribers.ts";
import { Violation } from "./violation.ts";

/** A late call may close a socket this long after its cause was undone. */
const CLOSE_GRACE_MS = 10_000;

/** Of the sockets of keys. */
const ARMED_CHANCE = 0.4;

export class Streaming {
  readonly #scene: Scene;
  readonly subscribers: Subscribers;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.subscribers = new Subscribers(() => scene.time.now);
    this.subscribers.onClose = (subscriber, code) => this.#closed(subscriber, code);
  }

  subscribe(step: Step, dice: Dice): void {
    const person = dice.pick(this.#scene.people.all);
    const book = dice.pick(BOOKS);
    const stream = dice.pick([
      accountStream(person.userId),
      bookStream(book.asset),
      venueStream(book.venue),
    ]);
    this.#scene.start(`subscribe@${step.index}`, dice, async () => {
      await this.open(person, stream, dice);
    });
  }

  /** Returns whether the stream has accepted the socket. */
  async open(person: Person, stream: string, dice: Dice): Promise<boolean> {
    const credential = credentialOf(person, dice);
    const earlier = this.subscribers.all.findLast(
      (one) => one.stream === stream && !one.open && one.last !== undefined,
    );
    const since = dice.chance(0.6) ? earlier?.last : undefined;
    const { DB } = this.#scene.env;
    const settings = config(this.#scene.env);
    const { actor: caller } = credential;
    const { ticket } = await this.#scene.credentials.call("issue_ticket", caller, () =>
      issueTicket(DB, settings, { actor: caller, scopes: caller.scopes }),
    );
    const { expiresAtMs, ...actor } = await this.#scene.credentials.call("use_ticket", caller, () =>
      consumeTicket(DB, settings, { ticket, clientIp: undefined, stream }),
    );
    const armed = actor.credential.kind === "api_key" && dice.chance(ARMED_CHANCE);
    const headers = { [ACTOR_HEADER]: JSON.stringify({ actor, endsAt: expiresAtMs, armed }) };
    const query = since === undefined ? "" : `?since=${since}`;
    const request = new Request(`https://stream.internal/${query}`, { headers });
    const response = await streamObject(this.#scene.env, stream).fetch(request);
    const client = clientOf(response);
    if (client === undefined) return false;
    const openedAt = this.#scene.time.now;
    this.subscribers.attach(
      { stream, person, credential, since, openedAt, armed, open: true, last: undefined },
      client,
    );
    return true;
  }

  /** Closes one socket, or all of its stream, while a client often comes back. */
  unsubscribe(step: Step, dice: Dice): void {
    const open = this.subscribers.all.filter((subscriber) => subscriber.open);
    if (open.length === 0) return;
    const { stream, person } = dice.pick(open);
    const everybody = dice.chance(0.5);
    const leaving = open.filter(
      (one) => one.stream === stream && (everybody || one.person === person),
    );
    // The last socket of a stream may leave while the next one arrives.
    const leaveAfter = dice.chance(0.5) ? 0 : dice.between(0, 400);
    this.#scene.time.after(leaveAfter, () => this.#close(leaving));
    if (dice.chance(0.7))
      this.#scene.start(`return@${step.index}`, dice, async () => {
        await this.open(person, stream, dice);
      });
  }

  closeAll(): void {
    this.#close(this.subscribers.all);
  }

  #close(subscribers: readonly Subscriber[]): void {
    for (const subscriber of subscribers) {
      if (!subscriber.open) continue;
      this.subscribers.leave(subscriber);
      subscriber.client?.close(1000);
    }
  }

  /** A socket is closed for its credential only while the credential is not valid. */
  #closed({ person, credential, openedAt, stream }: Subscriber, code: number): void {
    if (code !== 4401) return;
    const { now } = this.#scene.time;
    const since = Math.max(openedAt, person.frozenChangedAt ?? now);
    const [user] = this.#scene.database.rows(
      "SELECT frozen_at, session_epoch AS epoch FROM users WHERE user_id = unhex(?)",
      person.userId.replaceAll("-", ""),
    );
    const { credential: used } = credential.actor;
    const endsAt = used.kind === "session" ? used.expiresAtMs : Number.POSITIVE_INFINITY;
    // Sessions that a freeze ended stay ended after it.
    const ended = used.kind === "session" && used.epoch !== user?.["epoch"];
    if (
      user?.["frozen_at"] !== null ||
      ended ||
      credential.ending ||
      now >= endsAt ||
      now - since < CLOSE_GRACE_MS
    )
      return;
    this.#scene.fail(
      new Violation("valid_socket [A2]", `${stream} of ${person.name} was closed with 4401`),
    );
  }
}

/** Safe cast: `webSocket` is the client's end of our own `WebSocketPair`. */
function clientOf(response: { readonly webSocket: unknown }): ClientEnd | undefined {
  return (response.webSocket ?? undefined) as ClientEnd | undefined;
}
