/** An order makes as many queries as D1 allows it, so a long journal takes several. */
import type { OperatorRequest, OperatorResponse } from "../stack/operator-call.ts";

export async function reconcileWhole(
  command: OperatorRequest,
  call: (order: OperatorRequest) => Promise<OperatorResponse>,
  onProgress: (orders: number) => void = () => {},
): Promise<OperatorResponse> {
  const began = await call(command);
  let response = began;
  for (let orders = 1; response.ok && partOf(response).unfinished === true; orders++) {
    onProgress(orders);
    response = await call({ ...command, options: { continue: "true" } });
  }
  if (!began.ok || !response.ok) return response;
  const { resolved } = partOf(began);
  return resolved === undefined
    ? response
    : { ...response, result: { ...partOf(response), resolved } };
}

/** Safe cast: `reconcile` returns an object. */
function partOf({ result }: { readonly result: unknown }) {
  return result as { readonly unfinished?: boolean; readonly resolved?: number };
}
