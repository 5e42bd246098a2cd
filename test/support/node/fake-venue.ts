/**
 * A service within the process, for a client that is given its `fetch` and `webSocket`. With fake
 * timers its time is theirs. It answers quotes, alone and several, and nothing else that trades.
 */
import type { Client, WebSocketLike } from "../../../packages/client/src/index.ts";

type Listener = (event: { data?: unknown; code?: number; reason?: string }) => void;
type Terms = { op?: string; id?: string; not_after?: string; quotes?: object[] };
type Refused = { code: string; status: number; server_time: string };

/** A socket is told no more than its address. */
let current: FakeVenue;

export function fakeVenue(): FakeVenue {
  return (current = new FakeVenue());
}

export class FakeVenue {
  /** The service's clock minus the monotonic one. */
  aheadMs = Date.now() - performance.now();
  answerMs = 0;
  limits: object | null = null;
  /** Answers a call instead, if it returns a response. */
  instead: (path: string, method: string) => Response | undefined = () => undefined;
  readonly received: { path: string; body: Terms }[] = [];
  readonly sockets: FakeVenueSocket[] = [];
  #unanswered = 0;
  mostUnanswered = 0;

  now(): number {
    return performance.now() + this.aheadMs;
  }

  paths(): string[] {
    return this.received.map(({ path }) => path);
  }

  options(): ConstructorParameters<typeof Client>[0] {
    return {
      baseUrl: "https://rfq.test",
      // A signature would take real time.
      credential: { accessToken: "token" },
      fetch: (input, init) => this.#fetch(new Request(input, init)),
      webSocket: FakeVenueSocket,
    };
  }

  async #fetch(request: Request): Promise<Response> {
    const path = new URL(request.url).pathname;
    const text = await request.text();
    const body = text === "" ? {} : (JSON.parse(text) as Terms);
    this.received.push({ path, body });
    const other = this.instead(path, request.method);
    if (other !== undefined) return other;
    if (path === "/time") return Response.json({ unix_ms: this.now() });
    if (path === "/config") return this.#config();
    if (path.startsWith("/auth/ws-ticket")) return Response.json({ ticket: "t", scopes: [] });
    const aborted = new Promise<never>((_, reject) =>
      request.signal.addEventListener("abort", () => reject(new Error("aborted"))),
    );
    const answer = await Promise.race([this.carryOut(body), aborted]);
    return "code" in answer ? refusal(answer) : Response.json(answer);
  }

  #config(): Response {
    return this.limits === null
      ? new Response("<html>", { status: 404 })
      : Response.json({ limits: this.limits });
  }

  deadlinePassed(): Refused {
    const server_time = new Date(this.now()).toISOString();
    return { code: "deadline_passed", status: 409, server_time };
  }

  /** Whether a quote comes in time is decided when it arrives. */
  async carryOut({ not_after = "", quotes }: Terms): Promise<object | Refused> {
    const late = this.now() >= Date.parse(not_after);
    const refused = this.deadlinePassed();
    this.mostUnanswered = Math.max(this.mostUnanswered, ++this.#unanswered);
    await new Promise((resolve) => setTimeout(resolve, this.answerMs));
    this.#unanswered--;
    if (quotes !== undefined)
      return { results: quotes.map(() => ({ quote: {}, problem: late ? refused : null })) };
    return late ? refused : { quote_id: "q" };
  }
}

export function refusal(problem: Refused): Response {
  const headers = { "content-type": "application/problem+json" };
  return new Response(JSON.stringify(problem), { status: problem.status, headers });
}

class FakeVenueSocket implements WebSocketLike {
  readonly #venue = current;
  readonly #listeners: Record<string, Listener[]> = {};
  #closed = false;

  constructor() {
    this.#venue.sockets.push(this);
    setTimeout(() => {
      const server_time = new Date(this.#venue.now()).toISOString();
      this.#deliver({ type: "hello", stream: "s", at: "", seq: 0, data: { server_time } });
    });
  }

  send(text: string): void {
    if (text === "ping") return this.#deliver({ type: "pong", seq: 0 });
    const terms = JSON.parse(text) as Terms;
    this.#venue.received.push({ path: "socket", body: terms });
    void this.#venue.carryOut(terms).then((data) => {
      this.#deliver({ type: "code" in data ? "error" : "result", id: terms.id, data });
    });
  }

  close(): void {
    this.#closed = true;
  }

  drop(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#emit("close", { code: 1006, reason: "gone" });
  }

  addEventListener(type: string, listener: Listener): void {
    (this.#listeners[type] ??= []).push(listener);
  }

  #deliver(message: object): void {
    if (!this.#closed) this.#emit("message", { data: JSON.stringify(message) });
  }

  #emit(type: string, event: Parameters<Listener>[0]): void {
    for (const listener of this.#listeners[type] ?? []) listener(event);
  }
}
