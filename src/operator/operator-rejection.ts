/** Errors of operator commands that the public interface does not have (platform/problem.ts). */

const TITLES = {
  user_unknown: "No such user",
  withdrawal_final: "The withdrawal has ended",
  no_open_difference: "No difference is open",
  no_open_alert: "No alert is open",
  nobody_called: "Nobody receives alerts",
  deposit_not_confirming: "The deposit does not wait for confirmations",
  no_credited_deposit: "No deposit to the address was credited",
  payment_not_acceptable: "The payment cannot be accepted",
  rescue_refused: "The transfer cannot be rescued",
  market_limit: "Too many markets",
  market_listed: "The market is listed",
  market_trades: "The market is open",
  market_resolved: "The market has a result",
  outcome_listed: "The outcome is listed already",
  complement_mismatch: "The markets are not a pair",
  market_settled: "The result is final",
  market_conditional: "The chain decides the result",
  condition_mismatch: "The condition has not this outcome",
  condition_unreadable: "The condition cannot be read",
  not_stuck: "The record has not been set aside",
  operator_unknown: "No such operator",
  order_signature_invalid: "The order's signature does not verify",
  order_stale: "The order was signed too long ago",
  order_id_used: "The order id was used before",
  order_unfinished: "The order was begun and its result is unknown",
  approvals_impossible: "Nobody else could approve it",
  approver_is_proposer: "A proposer cannot approve",
  proposal_not_open: "The proposal is not open",
  history_not_mended: "Something else comes first",
  nothing_halted: "Neither a payer, a chain nor the sealer is halted",
} as const;

export type OperatorRejectionCode = keyof typeof TITLES;

export class OperatorRejection extends Error {
  readonly code: OperatorRejectionCode;
  constructor(code: OperatorRejectionCode, detail: string) {
    super(detail);
    this.name = "OperatorRejection";
    this.code = code;
  }
  body(requestId: string): Record<string, unknown> {
    const { code, message: detail } = this;
    return {
      type: `urn:rfq-custody:error:${code}`,
      title: TITLES[code],
      status: 409,
      code,
      detail,
      request_id: requestId,
    };
  }
}
