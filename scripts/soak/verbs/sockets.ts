/** A socket of a stream: sends frames, and checks every message of the service. */
import type { StreamDescription } from "../../openapi/conformance.ts";

const OPEN_MS = 10_000;
const ANSWER_MS = 15_000;

type Message = {
  readonly type: string;
  readonly id?: string | null;
  readonly data?: { readonly status?: unknown };
};

export type Reply = { readonly message: Message } | { readonly closed: true };

export class CheckedSocket {
  readonly #socket: WebSocket;
  readonly #waiting = new Map<string, (reply: Reply) => void>();
  readonly #report: (finding: string) => void;
  closed = false;

  /** Resolves to undefined if the service refuses the upgrade. */
  static async open(
    url: string,
    description: StreamDescription,
    on: { readonly message: (message: unknown) => void; readonly finding: (text: string) => void },
  ): Promise<CheckedSocket | undefined> {
    const socket = new CheckedSocket(new WebSocket(url), description, on);
    const opened = await socket.#opened();
    return opened ? socket : undefined;
  }

  private constructor(
    socket: WebSocket,
    description: StreamDescription,
    on: { readonly message: (message: unknown) => void; readonly finding: (text: string) => void },
  ) {
    this.#socket = socket;
    this.#report = on.finding;
    socket.addEventListener("message", (event) => {
      // Safe cast: the description is checked next.
      const message = JSON.parse(String(event.data)) as Message;
      const errors = description.errorsOf(message);
      if (errors.length > 0)
        on.finding(`frame ${String(event.data).slice(0, 300)}: ${errors.join("; ")}`);
      on.message(message.data);
      const { id = null } = message;
      if (id === null) return;
      const answered = this.#waiting.get(id);
      this.#waiting.delete(id);
      answered?.({ message });
    });
    socket.addEventListener("close", () => {
      this.closed = true;
      for (const answer of this.#waiting.values()) answer({ closed: true });
      this.#waiting.clear();
    });
    socket.addEventListener("error", () => {});
  }

  /** The reply to the command with this id, or that the socket was closed. */
  async ask(frame: string, id: string): Promise<Reply | undefined> {
    const reply = new Promise<Reply | undefined>((resolve) => {
      this.#waiting.set(id, resolve);
      setTimeout(() => {
        if (!this.#waiting.delete(id)) return;
        // A socket that is being closed gets no reply, and its TCP connection may linger.
        const closing = this.#socket.readyState !== WebSocket.OPEN;
        if (!closing) this.#report(`no reply within ${ANSWER_MS} ms to ${frame.slice(0, 300)}`);
        resolve(closing ? { closed: true } : undefined);
      }, ANSWER_MS).unref();
    });
    this.send(frame);
    return this.closed ? { closed: true } : reply;
  }

  send(frame: string): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(frame);
    else this.closed = true;
  }

  close(): void {
    this.#socket.close();
  }

  async #opened(): Promise<boolean> {
    const socket = this.#socket;
    return new Promise((resolve) => {
      socket.addEventListener("open", () => resolve(true));
      socket.addEventListener("close", () => resolve(false));
      setTimeout(() => {
        if (socket.readyState === WebSocket.CONNECTING) {
          this.#report(`a socket did not open within ${OPEN_MS} ms`);
          resolve(false);
        }
      }, OPEN_MS).unref();
    });
  }
}
