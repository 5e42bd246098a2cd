/** A kind of alert fails without a test that causes it and lets it go its whole way to its end. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { type CommandName, COMMANDS as OPERATORS, isRead } from "../../src/operator/commands.ts";
import { type AlertKind, alertTermsOf } from "../../src/platform/alert-kinds.ts";

// Safe cast: these are the keys of the table.
const COMMANDS = Object.keys(OPERATORS) as CommandName[];

/** Each calls answerAlert of test/support/pager.ts once the service has raised the alert. */
const CAUSED_BY: Readonly<Record<AlertKind, string>> = {
  alerts_late: "test/outbound/deliver-alerts.test.ts",
  anchor_late: "test/audit/audit.test.ts",
  archive_damaged: "test/archive/sealer-alerts.test.ts",
  chain_halted: "test/chain/deposits.anvil.ts",
  chain_removed: "test/custody/removed-chain.test.ts",
  chain_unreachable: "test/chain/alerts.anvil.ts",
  clock_ahead: "test/rfq/clock-ahead.clock.test.ts",
  deposit_address_altered: "test/chain/deposits.anvil.ts",
  deposit_missed: "test/chain/rescan.anvil.ts",
  deposit_phantom: "test/chain/witnesses.anvil.ts",
  deposit_quarantined: "test/chain/deposits.anvil.ts",
  endpoint_failing: "test/chain/hanging.anvil.ts",
  fee_ceiling: "test/chain/custody-of-funds.anvil.ts",
  finality_stalled: "test/chain/deposits.anvil.ts",
  gas_low: "test/chain/alerts.anvil.ts",
  history_cut: "test/archive/sealer-object.test.ts",
  journal_restored: "test/archive/sealer-alerts.test.ts",
  key_row_altered: "test/auth/key-seal.test.ts",
  liabilities_late: "test/reconcile/liabilities.test.ts",
  limit_reached: "test/chain/payment-limit.anvil.ts",
  node_refused: "test/chain/fees.anvil.ts",
  nodes_disagree: "test/chain/agreed.anvil.ts",
  notices_late: "test/outbound/deliver-log.test.ts",
  pager_test: "test/operator/questions.test.ts",
  payer_failing: "test/chain/alerts.anvil.ts",
  payer_halted: "test/chain/halts.anvil.ts",
  payment_refused: "test/chain/sweeps.anvil.ts",
  payment_skipped: "test/chain/withdrawals.anvil.ts",
  payment_terms: "test/chain/paid-otherwise.anvil.ts",
  payment_unknown: "test/chain/restore.anvil.ts",
  payment_unmined: "test/operator/questions.test.ts",
  reconciliation: "test/reconcile/reconcile.test.ts",
  record_stuck: "test/rfq/set-aside.test.ts",
  result_differs: "test/chain/pairs.anvil.ts",
  schema_drift: "test/platform/watch-schema.test.ts",
  seal_mismatch: "test/archive/sealer-alerts.test.ts",
  sealer_behind: "test/archive/sealer-alerts.test.ts",
  settlement_late: "test/rfq/pairs.test.ts",
  sealer_failing: "test/archive/sealer-alerts.test.ts",
  storage_filling: "test/operator/storage.test.ts",
  storage_full: "test/operator/storage.test.ts",
  token_refuses: "test/chain/hostile.anvil.ts",
  venue_paused: "test/operator/switches.test.ts",
  vault_paused: "test/chain/withdrawals.anvil.ts",
  withdrawal_altered: "test/chain/withdrawals.anvil.ts",
  withdrawal_dead_letter: "test/chain/wake-payer.test.ts",
  withdrawal_late: "test/chain/alerts.anvil.ts",
  withdrawal_parked: "test/chain/payment-limit.anvil.ts",
  withdrawals_paused: "test/operator/switches.test.ts",
};

/** `reconcile` writes which range it has read. */
const isReading = (words: readonly string[]) =>
  words.join(" ") === "reconcile" || COMMANDS.some((name) => isRead(name) && begins(words, name));
const begins = (words: readonly string[], name: string) =>
  name.split(" ").every((word, index) => words[index] === word);

it("names a next command that only reads, and no reason in the one that closes", () => {
  for (const kind of Object.keys(CAUSED_BY))
    for (const subject of ["local", "local:5"]) {
      const { next, close } = alertTermsOf(kind) ?? {};
      expect(isReading(next?.(subject) ?? []), kind).toBe(true);
      const reason = (close?.(subject, "") ?? []).findIndex((word) =>
        /^--re(ason|solve)$/.test(word),
      );
      expect([-1, (close?.(subject, "").length ?? 0) - 1], kind).toContain(reason);
    }
});

it.each(Object.entries(CAUSED_BY))("%s is caused and answered by %s", (kind, file) => {
  expect(readFileSync(file, "utf8")).toMatch(new RegExp(`\\banswerAlert\\(\\s*"${kind}"`));
});
