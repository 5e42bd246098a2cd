/**
 * Carries out an order of the tool. One that reads without bound takes many calls of the service.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { AccountsPart, OwnersPart, SealsPart } from "../../src/archive/verify-parts.ts";
import type { OperatorRequest, OperatorResponse } from "../stack/operator-call.ts";
import { reconcileWhole } from "./reconcile-whole.ts";
import { verifyArchive } from "./verify-archive.ts";
import { verifyWhole } from "./verify-whole.ts";

type Call = (order: OperatorRequest) => Promise<OperatorResponse>;
/** Learns how far the order has come. */
type Reached = (where: string) => void;

/** A long run survives some orders that get no answer. */
const TRIES = 3;
const RETRY_MS = 1_000;

export function carryOut(
  request: OperatorRequest,
  call: Call,
  reached: Reached = () => {},
): Promise<OperatorResponse> {
  const words = request.command.join(" ");
  if (words === "journal verify") return verifyJournal(request, call, reached);
  if (words === "audit verify")
    return verifyWhole(request, call, (rows) => reached(`${rows} verified`));
  if (words === "reconcile")
    return reconcileWhole(request, call, (orders) => reached(`${orders} orders`));
  return call(request);
}

/** The result of a local stack's command, such as `user freeze`. Throws if it is rejected. */
export async function order(
  { operator }: { readonly operator: Call },
  words: string,
  options: Record<string, string> = {},
): Promise<unknown> {
  const response = await carryOut({ command: words.split(" "), options }, operator);
  if (response.ok) return response.result;
  throw new Error(`${words}: ${JSON.stringify(response.problem)}`);
}

/** Puts the parts together that orders read (src/operator/journal.ts). */
async function verifyJournal(
  { options = {}, ...rest }: OperatorRequest,
  call: Call,
  onProgress: Reached,
): Promise<OperatorResponse> {
  let rejected: OperatorResponse | undefined;
  // Safe cast: the service answers an order of a part with that part.
  const part = async <Part>(of: Record<string, string>): Promise<Part> => {
    const response = await answered(() => call({ ...rest, options: of }));
    if (response.ok) return response.result as Part;
    rejected = response;
    throw new Error("rejected");
  };
  const source = {
    seals: (first: number, most?: number) =>
      part<SealsPart>({
        part: "seals",
        from: String(first),
        ...(most === undefined ? {} : { most: String(most) }),
      }),
    accounts: (after: number) => part<AccountsPart>({ part: "accounts", after: String(after) }),
    owners: (after: string) =>
      part<OwnersPart>({ part: "owners", ...(after === "" ? {} : { after }) }),
  };
  try {
    const from = Number(options["from"] ?? 1);
    return { ok: true, result: await verifyArchive(source, { from, onProgress }) };
  } catch (error) {
    if (rejected !== undefined) return rejected;
    throw error;
  }
}

async function answered<T>(ask: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await ask();
    } catch (error) {
      if (tries === TRIES) throw error;
      await sleep(RETRY_MS);
    }
  }
}
