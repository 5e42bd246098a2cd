/** A reader of a stream, connected straight to the stream's object: what the Worker does after it has eaten a ticket. */
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { streamObject } from "../../src/streams/notify.ts";
import { ACTOR_HEADER } from "../../src/streams/socket.ts";
import type { Actor } from "../../src/platform/actor.ts";

type Message = {
  type: string;
  stream: string;
  seq: number;
  at: string;
  id?: string | null;
  data: any;
};

export type Reader = {
  readonly socket: WebSocket;
  readonly messages: Message[];
  closed: { code: number; reason: string } | undefined;
  /** Waits until a message fits, and returns it. */
  until(fits: (message: Message) => boolean): Promise<Message>;
  events(): Message[];
};

const CONTROL = new Set(["hello", "snapshot", "resync", "pong", "result", "error"]);

export async function connect(actor: Actor, stream: string, since?: number): Promise<Reader> {
  const url =
    since === undefined ? "https://stream.internal/" : `https://stream.internal/?since=${since}`;
  const headers = { upgrade: "websocket", [ACTOR_HEADER]: JSON.stringify({ actor, endsAt: null }) };
  const response = await streamObject(env, stream).fetch(new Request(url, { headers }));
  expect(response.status).toBe(101);
  const socket = response.webSocket;
  if (socket === null) throw new Error("no socket");
  return listen(socket);
}

function listen(socket: WebSocket): Reader {
  const messages: Message[] = [];
  const reader: Reader = {
    socket,
    messages,
    closed: undefined,
    events: () => messages.filter((message) => !CONTROL.has(message.type)),
    until: async (fits) => {
      for (let waited = 0; waited < 3_000; waited += 5) {
        const found = messages.find(fits);
        if (found !== undefined) return found;
        await scheduler.wait(5);
      }
      throw new Error(`no such message among ${JSON.stringify(messages)}`);
    },
  };
  socket.addEventListener("message", (event) => {
    messages.push(JSON.parse(String(event.data)));
  });
  socket.addEventListener("close", (event) => {
    reader.closed = { code: event.code, reason: event.reason };
  });
  socket.accept();
  return reader;
}
