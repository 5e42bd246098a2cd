/**
 * The peer of `streams`: hibernating sockets in a Durable Object and a loop that sends a message to
 * all of them. With `stored=1` it first inserts the message into D1, as a service must whose events
 * may not be lost.
 */
import { DurableObject } from "cloudflare:workers";

export class Peer extends DurableObject {
  async fetch(request) {
    if (request.headers.get("upgrade") === "websocket") {
      const { 0: client, 1: server } = new WebSocketPair();
      this.ctx.acceptWebSocket(server);
      return new Response(null, { status: 101, webSocket: client });
    }
    const message = await request.text();
    const stored = new URL(request.url).searchParams.has("stored")
      ? await this.#store(message)
      : undefined;
    const at = stored ?? Date.now();
    for (const socket of this.ctx.getWebSockets()) socket.send(message);
    return Response.json({ at });
  }

  /** Returns D1's clock inside the batch, like our created_at. */
  async #store(message) {
    const [result] = await this.env.DB.batch([
      this.env.DB.prepare(
        `INSERT INTO events (body)
          VALUES (?) RETURNING CAST(round(unixepoch('subsec') * 1000) AS INTEGER) AS at`,
      ).bind(message),
    ]);
    return result.results[0].at;
  }
}

export default {
  fetch(request, env) {
    return env.PEER.getByName(new URL(request.url).searchParams.get("name")).fetch(request);
  },
};
