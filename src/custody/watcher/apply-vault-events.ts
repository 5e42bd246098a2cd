/** Applies vault events to withdrawals: paid ones settle, failed and voided ones are refunded. */
import type { VaultEvent } from "../../chain/decode-logs.ts";
import type { Group } from "../../platform/commit.ts";
import type { Sql } from "../../platform/sql.ts";
import type { WatcherContext } from "./commit-move.ts";
import { failUnpayable } from "./fail-withdrawal.ts";
import { haltOnForeignBatch } from "./foreign-batch.ts";
import {
  alertUnexpectedPayments,
  closeFails,
  endMembers,
  recordVaultEvents,
  requeueSkipped,
  settlePaid,
} from "./settle-withdrawal.ts";

export function applyVaultEvents(
  group: Group,
  { settings, chain: config }: Pick<WatcherContext, "settings" | "chain">,
  events: readonly VaultEvent[],
  when: Sql,
): Sql[] {
  const { chain } = config;
  return [
    ...recordVaultEvents(group, { settings, chain: config }, events, when),
    ...settlePaid(group, chain),
    ...failUnpayable(group),
    endMembers(group),
    requeueSkipped(group),
    closeFails(group),
    ...alertUnexpectedPayments(group, chain),
    ...haltOnForeignBatch(group, chain),
  ];
}
