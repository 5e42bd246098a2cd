/** The people, connections and calls that all attacks of the bench `abuse` use. */
import { drive } from "./load.ts";
import { sendAll } from "./market.ts";
import { makePeople, type Person, signed } from "./people.ts";
import { type BenchSocket, openSocket } from "./sockets.ts";
import type { BenchStack } from "./stack.ts";

const LANES = 12;
/** Twelve lanes send 400 requests a second, twice what the class `trade` admits. */
const LANE_EVERY_MS = 30;

/** Without a proxy in front the Worker believes this header, as it does at Cloudflare's edge. */
export const from = (ip: string) => ({ "cf-connecting-ip": ip });
export const ATTACKER = from("198.51.100.1");

export type Stage = {
  readonly stack: BenchStack;
  readonly assetId: string;
  readonly requestId: string;
  readonly requester: Person;
  readonly maker: Person;
};

export type Tally = Readonly<Record<string, number>>;

export async function newPerson({ stack }: Stage): Promise<Person> {
  const [person] = (await makePeople(stack, 1, [])) as [Person];
  return person;
}

export function restFlood(
  { stack }: Stage,
  requests: readonly Uint8Array[],
): (ms: number) => Promise<Tally> {
  const lanes = Array.from({ length: LANES }, (_, lane) =>
    // Each lane begins elsewhere, so that they send different requests.
    requests.map((_request, n) => requests[(n + lane * 37) % requests.length] as Uint8Array),
  );
  return async (forMs) => {
    const { statuses, closed } = await drive({
      port: stack.port,
      lanes,
      forMs,
      everyMs: LANE_EVERY_MS,
      reconnect: true,
    });
    return closed === 0 ? statuses : { ...statuses, closed };
  };
}

/** A socket of the book of each asset. */
export async function openSockets(
  stack: BenchStack,
  attacker: Person,
  assetIds: readonly string[],
): Promise<BenchSocket[]> {
  const sockets: BenchSocket[] = [];
  for (const assetId of assetIds) {
    const request = await signed(attacker, "POST", "/auth/ws-ticket/signed", undefined, ATTACKER);
    const [answer] = await sendAll(stack, [request]);
    const query = `ticket=${String(answer?.["ticket"])}&venue_id=venue_one&asset_id=${assetId}`;
    sockets.push(await openSocket(stack.port, `/rfq/stream?${query}`));
  }
  return sockets;
}
