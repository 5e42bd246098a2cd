/** A socket whose messages the client has not interpreted. */
import type { Client } from "../../../packages/client/src/index.ts";
import { until } from "./stack.ts";

export type RawMessage = {
  type: string;
  id?: string | null;
  seq?: number;
  data?: Record<string, unknown>;
};
export type RawSocket = {
  readonly messages: RawMessage[];
  send(frame: object | string): void;
  /** Waits for a message of the type that fits. */
  one(type: string, fits?: (message: RawMessage) => boolean): Promise<RawMessage>;
  close(): void;
};

const WAIT_MS = 30_000;

export async function openRawSocket(
  client: Client,
  baseUrl: string,
  target: string,
): Promise<RawSocket> {
  const { ticket } = await client.auth.wsTicket();
  const socket = new WebSocket(
    `${baseUrl.replace("http", "ws")}${target}${target.includes("?") ? "&" : "?"}ticket=${ticket}`,
  );
  const messages: RawMessage[] = [];
  socket.addEventListener("message", ({ data }) => messages.push(JSON.parse(String(data))));
  const one = (type: string, fits: (message: RawMessage) => boolean = () => true) =>
    until(
      `${type} among ${JSON.stringify(messages.map((message) => message.type))}`,
      WAIT_MS,
      async () => messages.find((message) => message.type === type && fits(message)) ?? null,
    );
  await one("hello");
  return {
    messages,
    send: (frame) => socket.send(typeof frame === "string" ? frame : JSON.stringify(frame)),
    one,
    close: () => socket.close(1000),
  };
}
