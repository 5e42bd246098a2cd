/** `npm run drill`: incidents on a local stack, and whom they call (docs/testing.md). */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { INCIDENTS } from "./drill/incidents.ts";
import { play } from "./drill/play.ts";
import { type Drill, openDrill } from "./drill/world.ts";
import { readArguments, refuse } from "./stack/arguments.ts";
import { runScript } from "./stack/shutdown.ts";

const CRON_EVERY_MS = 3_000;
const USAGE = `npm run drill -- [--only <incident>]... [--every-minute] [--dir <path>]

Plays incidents one after the other on a local chain: breaks something, waits for the alerts that
ALERT_URL must get, runs the next command that they print, mends it and waits until they close.
Cron runs every ${CRON_EVERY_MS / 1_000} seconds, with --every-minute as on Cloudflare. It exits with 1 if one of them
does not happen.`;

await runScript(async (onStop) => {
  const values = readArguments(USAGE, {
    only: { type: "string", multiple: true },
    "every-minute": { type: "boolean", default: false },
    dir: { type: "string", default: join(".stack", "drill") },
  });
  const incidents = INCIDENTS.filter(({ name }) => values.only?.includes(name) ?? true);
  if (incidents.length === 0)
    refuse(`--only: one of ${INCIDENTS.map(({ name }) => `"${name}"`).join(", ")}`, USAGE);
  const drill = await openDrill(values.dir, onStop);
  if (!values["every-minute"]) onStop(repeatCron(drill));
  console.log(row("incident", "paged s", "closed s", "next", "alerts"));
  let failures = 0;
  for (const incident of incidents) {
    try {
      const { alerts, pagedSecs, closedSecs } = await play(drill, incident);
      console.log(row(incident.name, pagedSecs, closedSecs, "ok", counted(alerts)));
    } catch (error) {
      failures++;
      console.log(`FAILED ${incident.name}: ${String(error)}`);
    }
  }
  console.log(`drill: ${incidents.length - failures} of ${incidents.length} incidents held`);
  return failures === 0 ? 0 : 1;
});

/** Returns what ends it. */
function repeatCron({ stack }: Drill): () => Promise<void> {
  const state = { ended: false };
  const repeating = (async () => {
    // A restart cuts a run off.
    for (; !state.ended; await sleep(CRON_EVERY_MS)) await stack.runCron().catch(() => {});
  })();
  return () => {
    state.ended = true;
    return repeating;
  };
}

/** As `reconciliation (page) × 2`. */
function counted(alerts: readonly string[]): string {
  return Array.from(Map.groupBy(alerts, (name) => name))
    .map(([name, { length }]) => (length === 1 ? name : `${name} × ${length}`))
    .join(", ");
}

function row(incident: string, ...cells: (string | number)[]): string {
  const [paged = "", closed = "", next = "", alerts = ""] = cells.map(String);
  return `${incident.padEnd(36)}${paged.padStart(8)}${closed.padStart(9)}  ${next.padEnd(5)} ${alerts}`;
}
