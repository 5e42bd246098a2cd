/** GET /status for everybody, and GET /metrics for the operator's Prometheus. */
import { createHash, timingSafeEqual } from "node:crypto";
import * as z from "zod";
import { route } from "../http/define-route.ts";
import { respond } from "../http/edge.ts";
import { described, timeOrNullOut } from "../http/fields.ts";
import { limitAddress } from "../http/rate-limit.ts";
import { Remembered } from "../http/remembered.ts";
import type { EdgeContext, RequestContext } from "../http/request-context.ts";
import { type Api, reply } from "../http/route-definition.ts";
import { config } from "../platform/config.ts";
import { COUNTERS, DURATIONS, METRICS_NAME } from "../platform/counts.ts";
import { near } from "../platform/near.ts";
import { problem } from "../platform/problem.ts";
import { toWireTime } from "../platform/time.ts";
import { COMPONENTS, type ComponentStatus } from "./component-status.ts";
import { LEVELS, readLevels } from "./measure.ts";

const STATUS_SECS = 10;
/** Cron measures once a minute. What is older says nothing about now. */
const STALE_MS = 180_000;

const Component = described(
  z.enum(["ok", "slow", "paused", "unknown"]),
  "`slow`: works, or catches up, later than usual. `paused`: rejected or waits. `unknown`: not " +
    "measured for three minutes",
);
const Status = z
  .object({
    trading: Component,
    deposits: Component,
    withdrawals: Component,
    measured_at: timeOrNullOut(
      "When the service last measured it; null: never, or it cannot read it",
    ),
  })
  .meta({ id: "ServiceStatus" });

/** Null: never, or the database does not answer, which is a status, too. */
type Measured = (ComponentStatus & { readonly at: number }) | null;

export function registerServiceRoutes(app: Api): void {
  const measured = new Remembered<Measured>(STATUS_SECS * 1_000);
  route(app, {
    method: "get",
    path: "/status",
    operationId: "getStatus",
    tag: "Service",
    summary: "Get whether trading, deposits and withdrawals work",
    description: "Measured once a minute. The response may be ten seconds older.",
    credential: "public",
    response: Status,
    handler: async ({ env, db }) => {
      const known = await measured.get(env, () => readStatus(db));
      return reply(statusOf(known), { "cache-control": `public, max-age=${STATUS_SECS}` });
    },
  });
  // Not in the description, because it is the operator's and no client's.
  app.methods.set("/metrics", new Set(["GET", "HEAD"]));
  app.hono.get("/metrics", (c) => respond(c, (context) => metrics(c, context)));
}

async function readStatus(db: D1Database): Promise<Measured> {
  const levels = await readLevels(db).catch(() => undefined);
  return levels === undefined ? null : { ...levels.status, at: levels.at };
}

function statusOf(known: Measured): z.input<typeof Status> {
  const measured_at = known === null ? null : toWireTime(known.at);
  const shown = (name: (typeof COMPONENTS)[number]) =>
    known === null || known.at < Date.now() - STALE_MS ? "unknown" : known[name];
  return {
    trading: shown("trading"),
    deposits: shown("deposits"),
    withdrawals: shown("withdrawals"),
    measured_at,
  };
}

/** 503 if the database does not answer, so that Prometheus sees the target down. */
async function metrics(c: EdgeContext, context: RequestContext): Promise<Response> {
  context.route = "/metrics";
  const settings = config(c.env);
  if (settings.METRICS_TOKEN === "") throw problem("route_unknown", "No such path.");
  await limitAddress(c.env, settings, context.clientIp);
  if (!isSame(c.req.header("authorization") ?? "", `Bearer ${settings.METRICS_TOKEN}`))
    throw problem("credentials_missing", "The bearer token is missing or wrong.");
  const [levels, sums] = await Promise.all([
    readLevels(c.env.DB),
    near(c.env, c.env.METRICS, METRICS_NAME).read(),
  ]);
  const values: Value[] = Object.entries(levels?.levels ?? {}).map(([series, level]) => [
    series,
    level ?? "+Inf",
  ]);
  values.push(...sums, ["rfq_measured_timestamp_seconds", (levels?.at ?? 0) / 1_000]);
  return new Response(metricsText(values), {
    headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" },
  });
}

type Value = readonly [series: string, value: number | "+Inf"];

/** Compares in constant time, also texts of different lengths. */
function isSame(given: string, expected: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(given), digest(expected));
}

const GAUGES = {
  ...LEVELS,
  rfq_measured_timestamp_seconds: "When cron measured what has no total",
};
const FAMILIES: readonly (readonly [type: string, families: Readonly<Record<string, string>>])[] = [
  ["counter", COUNTERS],
  ["histogram", DURATIONS],
  ["gauge", GAUGES],
];

/** The text format of Prometheus. Series of no known family, of other code, are left out. */
function metricsText(values: readonly Value[]): string {
  const byFamily = Map.groupBy(values, ([series]) => familyOf(series));
  const lines = FAMILIES.flatMap(([type, families]) =>
    Object.entries(families).flatMap(([family, help]) => [
      `# HELP ${family} ${help}`,
      `# TYPE ${family} ${type}`,
      ...(byFamily.get(family) ?? []).map(([series, value]) => `${series} ${value}`),
    ]),
  );
  return `${lines.join("\n")}\n`;
}

function familyOf(series: string): string {
  const [name = ""] = series.split("{");
  const histogram = name.replace(/_(bucket|sum|count)$/, "");
  return histogram in DURATIONS ? histogram : name;
}
