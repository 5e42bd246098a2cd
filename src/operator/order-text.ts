/** The text that an operator signs. Pure, because the Worker and the operator's tool share it. */
export function orderText(order: {
  readonly deployment: string;
  readonly orderId: string;
  readonly signedAtMs: number;
  /** Lower-case hex, of the bytes of the order's JSON. */
  readonly sha256: string;
}): string {
  const { deployment, orderId, signedAtMs, sha256 } = order;
  return ["rfq-custody-order-v1", deployment, orderId, signedAtMs, sha256].join("\n");
}
