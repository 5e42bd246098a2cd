/** Applies vault events to withdrawals: paid ones settle, failed and voided ones are refunded. */
import type { VaultEvent } from "../../chain/decode-logs.ts";
import type { Group } from "../../platform/commit.ts";
import type { Sql } from "../../platform/sql.ts";
import { failUnpayable } from "./fail-withdrawal.ts";
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
  chain: string,
  events: readonly VaultEvent[],
  when: Sql,
): Sql[] {
  return [
    ...recordVaultEvents(group, chain, events, when),
    ...settlePaid(group, chain),
    ...failUnpayable(group),
    endMembers(group),
    requeueSkipped(group),
    closeFails(group),
    ...alertUnexpectedPayments(group, chain),
  ];
}
