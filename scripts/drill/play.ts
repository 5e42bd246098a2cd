/** Plays an incident: break, page, the next command as printed, mend, close. */
import { ALERTS } from "../../src/platform/alert-kinds.ts";
import { until } from "../stack/until.ts";
import type { Incident } from "./incidents.ts";
import type { Received } from "./receiver.ts";
import { runPrinted } from "./run-printed.ts";
import type { Drill } from "./world.ts";

export type Played = {
  /** In the order in which they arrived. */
  readonly alerts: readonly string[];
  /** From the break to the last alert that must arrive. */
  readonly pagedSecs: number;
  /** From the mend to the end of the last alert. */
  readonly closedSecs: number;
};

/** No assertion about time: only that something does not come at all. */
const LONGEST_MS = 300_000;
/** A closing command often ends more than its own alert. */
const SETTLE_MS = 15_000;

/** Throws if an alert does not come or does not close, or if a printed command is refused. */
export async function play(drill: Drill, incident: Incident): Promise<Played> {
  const { receiver } = drill;
  const first = receiver.alerts.length;
  const came = () => receiver.alerts.slice(first);
  const raised = () => came().filter(({ type }) => type === "alert.raised");
  const open = () => raised().filter((one) => !came().some((later) => ends(later, one)));

  const mend = await incident.break(drill);
  const brokenAt = Date.now();
  const expected: Received[] = [];
  let pagedAt: number;
  try {
    for (const kind of incident.alerts)
      expected.push(
        await until(
          kind,
          LONGEST_MS,
          async () => raised().find(({ data }) => data.kind === kind) ?? null,
        ),
      );
    pagedAt = await answer(drill, expected, raised());
  } finally {
    await mend(expected);
  }
  const mendedAt = Date.now();
  await close(drill, incident, open);
  requireOrder(receiver.alerts);
  const closedAt = came().at(-1)?.at ?? mendedAt;
  await until("the heartbeat to go on", LONGEST_MS, async () =>
    receiver.heartbeats.some((at) => at > closedAt) ? true : null,
  );
  return {
    alerts: raised().map(({ data }) => `${data.kind} (${data.urgency})`),
    pagedSecs: secondsFrom(brokenAt, pagedAt),
    closedSecs: secondsFrom(mendedAt, closedAt),
  };
}

/** What the one who is called does first. Resolves to when the last alert came. */
async function answer(
  { stack, receiver }: Drill,
  expected: readonly Received[],
  raised: readonly Received[],
): Promise<number> {
  for (const { data } of expected)
    if (data.urgency !== ALERTS[data.kind].urgency)
      throw new Error(`${data.kind} is a ${data.urgency}`);
  const nextCommands = [...new Set(raised.map(({ data }) => data.next_command))];
  for (const command of nextCommands) await runPrinted(stack, command);
  const at = Math.max(...expected.map((one) => one.at));
  if (expected.some(({ data: { kind } }) => "stops" in ALERTS[kind])) {
    // It is cron's last task.
    await stack.runCron();
    if (receiver.heartbeats.some((beat) => beat > at)) throw new Error("the heartbeat went on");
  }
  return at;
}

/** By the commands that alerts name for it, one by one, of those that do not close by themselves. */
async function close(
  { stack }: Drill,
  { alerts }: Incident,
  open: () => readonly Received[],
): Promise<void> {
  /** Expected ones first, in the order of the incident. */
  const rank = ({ data }: Received) => {
    const at = alerts.indexOf(data.kind);
    return at === -1 ? alerts.length : at;
  };
  const ran = new Set<string>();
  let lastRanAt = 0;
  await until("the alerts to close", LONGEST_MS, async () => {
    const left = open().toSorted((one, other) => rank(one) - rank(other));
    if (left.length === 0) return true;
    const commands = left.flatMap(({ data }) => data.closing_command ?? []);
    const command = commands.find((one) => !ran.has(one));
    if (command === undefined || Date.now() < lastRanAt + SETTLE_MS) return null;
    // Only a person knows the reason.
    await runPrinted(stack, / --(reason|resolve)$/.test(command) ? `${command} drill` : command);
    ran.add(command);
    lastRanAt = Date.now();
    return null;
  });
}

function requireOrder(alerts: readonly Received[]): void {
  const events = alerts.map(({ event }) => event);
  if (events.some((event, index) => event < (events[index - 1] ?? 0)))
    throw new Error(`the alerts came in another order: ${events.join(" ")}`);
}

const secondsFrom = (from: number, to: number) => Math.max(0, Math.round((to - from) / 1_000));

function ends(later: Received, { event, data }: Received): boolean {
  const { kind, subject } = later.data;
  const isSame = kind === data.kind && subject === data.subject;
  return later.type === "alert.resolved" && later.event > event && isSame;
}
