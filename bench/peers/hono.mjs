/** The second peer of `auth`: the router of the service and nothing else. */
import { DurableObject } from "cloudflare:workers";
import { Hono } from "../../node_modules/hono/dist/index.js";

const app = new Hono();
app.get("/auth/whoami", (context) =>
  context.json({ user_id: "01a2c585-0000-7000-8000-000000000001", scopes: ["read", "trade"] }),
);

/** Every peer has one. */
export class Peer extends DurableObject {}
export default app;
