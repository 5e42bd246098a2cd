/** Gets what ALERT_URL and HEARTBEAT_URL send, as the people whom they call. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { AlertKind } from "../../src/platform/alert-kinds.ts";

export type Received = {
  /** Rises in the order in which the service raised and resolved. */
  readonly event: number;
  readonly at: number;
  readonly type: "alert.raised" | "alert.resolved";
  readonly data: {
    readonly kind: AlertKind;
    readonly subject: string;
    readonly detail: string;
    readonly urgency: string;
    readonly next_command: string;
    readonly closing_command: string | null;
  };
};

/** The body of our own format. */
type Sent = Pick<Received, "type" | "data">;

export async function startReceiver() {
  const alerts: Received[] = [];
  const heartbeats: number[] = [];
  const state = { down: false, refused: 0 };
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => (body += text));
    request.on("end", () => {
      if (request.url === "/heartbeat") heartbeats.push(Date.now());
      else if (state.down) {
        state.refused++;
        response.statusCode = 503;
      } else {
        const event = Number(String(request.headers["webhook-id"]).replace("alert-event-", ""));
        // One may arrive twice.
        if (alerts.every((one) => one.event !== event))
          alerts.push({ event, at: Date.now(), ...(JSON.parse(body) as Sent) });
      }
      response.end();
    });
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  // Safe cast: a server of TCP has such an address.
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    alerts,
    heartbeats,
    state,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}
