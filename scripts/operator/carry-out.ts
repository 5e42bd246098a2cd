/** Carries out an order of the tool. One that reads without bound takes many calls of the service. */
import type { OperatorRequest, OperatorResponse } from "../stack/operator-call.ts";
import { verifyJournal } from "../stack/verify-journal.ts";
import { reconcileWhole } from "./reconcile-whole.ts";
import { verifyWhole } from "./verify-whole.ts";

type Call = (order: OperatorRequest) => Promise<OperatorResponse>;
/** Learns how far the order has come. */
type Reached = (where: string) => void;

export function carryOut(
  order: OperatorRequest,
  call: Call,
  reached: Reached = () => {},
): Promise<OperatorResponse> {
  const words = order.command.join(" ");
  if (words === "journal verify") return verify(order, call, reached);
  if (words === "audit verify")
    return verifyWhole(order, call, (rows) => reached(`${rows} verified`));
  if (words === "reconcile")
    return reconcileWhole(order, call, (orders) => reached(`${orders} orders`));
  return call(order);
}

async function verify(
  { options = {}, ...order }: OperatorRequest,
  call: Call,
  onProgress: Reached,
): Promise<OperatorResponse> {
  let rejected: OperatorResponse | undefined;
  const read = async (part: Record<string, string>) => {
    const response = await call({ ...order, options: part });
    if (response.ok) return response.result;
    rejected = response;
    throw new Error("rejected");
  };
  try {
    const from = Number(options["from"] ?? 1);
    const isFinal = () => rejected !== undefined;
    return { ok: true, result: await verifyJournal(read, { from, onProgress }, isFinal) };
  } catch (error) {
    if (rejected !== undefined) return rejected;
    throw error;
  }
}
