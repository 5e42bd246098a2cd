/**
 * The deliveries of one endpoint, in its object. They read the account stream from a position of
 * their own and keep what is for the endpoint in the object's storage. An event leaves it once it
 * was accepted, and until then the next ones wait. All of it happens in the alarm, so passes never
 * overlap. A pass may end anywhere: then an event is sent again with the same `webhook-id`.
 */
import { type Attempt, postOnce, retryDelayMs } from "../../outbound/post-once.ts";
import { signedHeaders } from "../../outbound/sign.ts";
import { config } from "../../platform/config.ts";
import { errorFields, log } from "../../platform/log.ts";
import { near } from "../../platform/near.ts";
import { now, toWireTime } from "../../platform/time.ts";
import { accountStream } from "../../streams/event-log.ts";
import { pushNotices } from "../../streams/notice.ts";
import { renderEvent } from "../../streams/render.ts";
import { EventsMissing, eventsBetween, goneReason, pollStream } from "../../streams/replay.ts";
import { EVENT_VIEWS } from "../event-views.ts";
import {
  disableEndpoint,
  type WebhookEndpoint,
  readEndpoint,
  secretsAt,
  type WebhookEnd,
} from "./endpoints.ts";
import { type AttemptRow, MAX_WAITING, MAX_WAITING_MS, WaitingEvents } from "./waiting-events.ts";
import { isAllowed } from "./webhook-url.ts";

/** How often it looks for events that nobody reported. They are kept for two hours. */
const CHECK_MS = 600_000;
/** A row that is not there after this time does not come any more. D1 ends a batch after 30 s. */
const CREATED_WITHIN_MS = 60_000;
/** Of one pass, far below the 15 minutes of an alarm. */
const PASS_MS = 60_000;
const FAILED_PASS_MS = 10_000;
/** Between test deliveries, which are posts to a host that the caller names. */
const TEST_EVERY_MS = 10_000;

/** A short wait lets one pass collect a burst. */
const WAKE_MS = 100;

/** Storage keys. */
const ENDPOINT = "endpoint";
const FIRST_WOKEN = "first_woken";
const LISTENED = "listened";
const FAILURES = "failures";
const RETRY_AT = "retry_at";

export class Deliveries {
  readonly #storage: DurableObjectStorage;
  readonly #env: Env;
  readonly #waiting: WaitingEvents;
  #woken = false;
  #testedAt = 0;

  constructor(storage: DurableObjectStorage, env: Env) {
    this.#storage = storage;
    this.#env = env;
    this.#waiting = new WaitingEvents(storage);
  }

  /** Called before the row of the endpoint is written. The alarm looks for the row later. */
  async prepare(endpointId: string): Promise<void> {
    this.#know(endpointId);
    await this.#storage.setAlarm(now() + CREATED_WITHIN_MS);
  }

  /**
   * The stream has events, or the row has changed. A failing endpoint looks at its own pace, so
   * that its user's events do not cost more because nobody receives them.
   */
  async wake(endpointId: string): Promise<void> {
    this.#know(endpointId);
    if (this.#failures > 0 || this.#woken) return;
    this.#woken = true;
    try {
      await this.#storage.setAlarm(now() + WAKE_MS);
    } catch (error) {
      this.#woken = false;
      throw error;
    }
  }

  attempts(): AttemptRow[] {
    return this.#waiting.attempts();
  }

  /** Sends a message that is no event. Undefined if one was sent a few seconds ago. */
  async sendTest(endpoint: WebhookEndpoint): Promise<AttemptRow | undefined> {
    const at = now();
    if (at < this.#testedAt + TEST_EVERY_MS) return undefined;
    this.#testedAt = at;
    await this.#say(endpoint, "test");
    return this.#waiting.attempts()[0];
  }

  /** The row is deleted. Its receiver learns it once, because what waits is not delivered. */
  sendRemoved(endpoint: WebhookEndpoint): Promise<void> {
    return this.#say(endpoint, "removed");
  }

  /** Posts a message that is no event. */
  async #say(endpoint: WebhookEndpoint, what: "test" | "removed"): Promise<void> {
    const stream = accountStream(endpoint.userId);
    const body = { type: `webhook.${what}`, stream, seq: 0, at: toWireTime(now()), data: {} };
    await this.#post(endpoint, `${what}:${crypto.randomUUID()}`, JSON.stringify(body));
  }

  async alarm(): Promise<void> {
    this.#woken = false;
    let next: number | null = now() + FAILED_PASS_MS;
    try {
      next = await this.#pass();
    } catch (error) {
      // The platform retries an alarm six times only.
      log("error", "webhooks.pass_failed", { endpoint_id: this.#id, ...errorFields(error) });
    }
    if (next !== null) await this.#storage.setAlarm(this.#woken ? now() : next);
  }

  /** Returns when the next pass is due. */
  async #pass(): Promise<number | null> {
    const endpoint = await readEndpoint(this.#env.DB, this.#id);
    if (endpoint === undefined) return this.#missing();
    const feed = near(this.#env, this.#env.FEED, accountStream(endpoint.userId));
    if (endpoint.disabledAt !== null) {
      await feed.removeWebhook(this.#id);
      this.#waiting.forget();
      return null;
    }
    // Again now and then, because a restore of D1 loses the subscription.
    const isCheck = now() - (this.#storage.kv.get<number>(LISTENED) ?? 0) >= CHECK_MS;
    if (isCheck) {
      this.#storage.kv.put("user", endpoint.userId);
      await feed.addWebhook({ id: this.#id, types: endpoint.types.split(",") });
      this.#storage.kv.put(LISTENED, now());
    }
    // A retry is for what is kept already, so that many silent receivers do not keep D1 busy.
    const lost = isCheck || this.#failures === 0 ? await this.#collect(endpoint) : undefined;
    if (lost !== undefined) return this.#disable(endpoint, "events_gone", lost);
    const oldest = this.#waiting.oldest();
    if (oldest === undefined) return now() + CHECK_MS;
    if (this.#waiting.count > MAX_WAITING) return this.#disable(endpoint, "full", oldest.seq);
    if (oldest.since < now() - MAX_WAITING_MS) return this.#disable(endpoint, "late", oldest.seq);
    // What a thief set up gets nothing more. After a thaw nothing is missing.
    if (endpoint.frozen === 1) return now() + CHECK_MS;
    return this.#deliver(endpoint);
  }

  /** The webhook was rejected, is not committed yet, or its owner has removed it. */
  async #missing(): Promise<number | null> {
    const created = this.#storage.kv.get<number>(FIRST_WOKEN) ?? 0;
    if (now() - created < CREATED_WITHIN_MS) return created + CREATED_WITHIN_MS;
    const userId = this.#storage.kv.get<string>("user");
    if (userId !== undefined)
      await near(this.#env, this.#env.FEED, accountStream(userId)).removeWebhook(this.#id);
    await this.#storage.deleteAll();
    return null;
  }

  /** Keeps new events. Returns the first number that the stream does not have any more. */
  async #collect(endpoint: WebhookEndpoint): Promise<number | undefined> {
    const stream = accountStream(endpoint.userId);
    const head = await pollStream(this.#env.DB, stream);
    const after = this.#waiting.position ?? endpoint.afterSeq;
    if (goneReason(after, head) !== undefined) return after + 1;
    const types = new Set(endpoint.types.split(","));
    try {
      const range = { after, upTo: head.lastSeq };
      for await (const events of eventsBetween(this.#env.DB, stream, range)) {
        const rendered = events.map((event) => renderEvent(EVENT_VIEWS, event));
        this.#waiting.add(
          rendered.filter(({ type }) => types.has(type)),
          { since: now(), to: events.at(-1)?.seq ?? after },
        );
        if (this.#waiting.count > MAX_WAITING) break;
      }
    } catch (error) {
      if (error instanceof EventsMissing) return (this.#waiting.position ?? after) + 1;
      throw error;
    }
    return undefined;
  }

  /** Reads the row before each event, because a freeze or a removal may come during the pass. */
  async #deliver(first: WebhookEndpoint): Promise<number> {
    const retryAt = this.#storage.kv.get<number>(RETRY_AT) ?? 0;
    if (now() < retryAt) return Math.min(retryAt, now() + CHECK_MS);
    const until = now() + PASS_MS;
    for (let endpoint: WebhookEndpoint | undefined = first; now() < until;) {
      const event = this.#waiting.oldest();
      if (event === undefined) return now() + CHECK_MS;
      const message = `${accountStream(endpoint.userId)}:${event.seq}`;
      const { accepted, status } = await this.#post(endpoint, message, event.body);
      if (status === 410) return this.#disable(endpoint, "gone", event.seq);
      if (!accepted) return this.#failed();
      this.#waiting.accepted(event.seq);
      if (this.#failures === 0) {
        endpoint = await readEndpoint(this.#env.DB, this.#id);
        if (endpoint === undefined || endpoint.disabledAt !== null || endpoint.frozen === 1)
          return now();
        continue;
      }
      // Next come the events of the meantime.
      this.#storage.kv.delete(FAILURES);
      return now();
    }
    return now();
  }

  #failed(): number {
    const failures = this.#failures + 1;
    const retryAt = now() + retryDelayMs(failures);
    this.#storage.kv.put(FAILURES, failures);
    this.#storage.kv.put(RETRY_AT, retryAt);
    return Math.min(retryAt, now() + CHECK_MS);
  }

  async #post(endpoint: WebhookEndpoint, message: string, body: string): Promise<Attempt> {
    const settings = config(this.#env);
    const { url } = endpoint;
    const at = now();
    if (!isAllowed(settings, url)) throw new Error("the endpoint's URL is not allowed");
    const secrets = await secretsAt(settings, endpoint, at);
    const headers = signedHeaders(secrets, { id: message, at, body });
    const attempt = await postOnce({ to: `webhook ${this.#id}`, url, headers, body });
    this.#waiting.attempted({ message, at, ...attempt, accepted: attempt.accepted ? 1 : 0 });
    return attempt;
  }

  /** The next pass finds the row and ends. */
  async #disable(endpoint: WebhookEndpoint, reason: WebhookEnd, seq: number): Promise<number> {
    await disableEndpoint(this.#env.DB, endpoint, { reason, seq });
    await pushNotices(this.#env, endpoint.userId);
    return now();
  }

  #know(endpointId: string): void {
    if (this.#storage.kv.get(ENDPOINT) !== undefined) return;
    this.#storage.kv.put(ENDPOINT, endpointId);
    this.#storage.kv.put(FIRST_WOKEN, now());
  }

  get #id(): string {
    return this.#storage.kv.get<string>(ENDPOINT) ?? "";
  }

  get #failures(): number {
    return this.#storage.kv.get<number>(FAILURES) ?? 0;
  }
}
