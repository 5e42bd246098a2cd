/**
 * Clients of streams. Each checks that what it receives is a prefix of the stream's log without a
 * gap, and that all clients receive the same text under the same number.
 */
import type { Credential, Person } from "./people.ts";
import type { ClientEnd } from "./sockets.ts";
import { Violation } from "./violation.ts";

type Frame = {
  readonly type: string;
  readonly stream?: string;
  readonly seq?: number;
  readonly data?: { readonly more?: boolean };
};

export type Subscriber = {
  readonly stream: string;
  readonly person: Person;
  readonly credential: Credential;
  readonly since: number | undefined;
  readonly openedAt: number;
  /** Its end cancels the quotes of its key. */
  readonly armed: boolean;
  client?: ClientEnd;
  open: boolean;
  /** When the client left or learned that the socket was closed. */
  endedAt?: number;
  /** The number of the last event, or of the snapshot. */
  last: number | undefined;
};

export class Subscribers {
  readonly #texts = new Map<string, string>();
  all: Subscriber[] = [];
  frames = 0;
  readonly #now: () => number;
  onClose: (subscriber: Subscriber, code: number) => void = () => {};

  constructor(now: () => number) {
    this.#now = now;
  }

  attach(subscriber: Subscriber, client: ClientEnd): void {
    subscriber.client = client;
    subscriber.open = true;
    this.all.push(subscriber);
    client.listen({
      onMessage: (text) => this.#receive(subscriber, text),
      onClose: (code) => {
        this.leave(subscriber);
        this.onClose(subscriber, code);
      },
    });
  }

  leave(subscriber: Subscriber): void {
    subscriber.open = false;
    subscriber.endedAt ??= this.#now();
  }

  /** Forgets texts and closed sockets. Called at a quiet point. */
  forget(): void {
    this.#texts.clear();
    this.all = this.all.filter(({ open, last }) => open || last !== undefined).slice(-60);
  }

  #receive(subscriber: Subscriber, text: string): void {
    this.frames++;
    // Safe cast: the service renders its frames in this form.
    const frame = JSON.parse(text) as Frame;
    const { stream, since, last } = subscriber;
    if (frame.seq === undefined) return;
    if (frame.stream !== stream)
      throw new Violation("stream_of_socket", `${stream} received ${text}`);
    switch (frame.type) {
      case "hello":
        subscriber.last = since ?? frame.seq;
        return;
      case "resync":
      case "snapshot":
        subscriber.last = frame.seq;
        return;
      default:
        if (frame.seq !== (last ?? -1) + 1)
          throw new Violation(
            "gapless_prefix",
            `${stream} of ${subscriber.person.name}: ${frame.seq} follows ${last} (since ${since})`,
          );
        subscriber.last = frame.seq;
        this.#same(`${stream} ${frame.seq}`, text);
    }
  }

  #same(key: string, text: string): void {
    const known = this.#texts.get(key);
    if (known === undefined) this.#texts.set(key, text);
    else if (known !== text)
      throw new Violation("same_event_for_all", `${key} was ${known} and is ${text}`);
  }
}
