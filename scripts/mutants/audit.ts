/** Of audit events, the rights that follow from them, and proposals. */
import { EVENT_MAC, RIGHTS, workers, of, type Mutant } from "./mutant.ts";

export const AUDIT_MUTANTS: readonly Mutant[] = [
  ...of("proposal", "src/operator/approvals.ts", [
    [
      "altered by SQL",
      "if (!(await isOurs(settings, proposal)))",
      'if (proposal.seal === "")',
      [workers("test/operator/orders.test.ts")],
    ],
    [
      "an old one made new by SQL",
      "if (instantOf(proposalId) <= Date.now() - LIFE_MS)",
      "if (instantOf(proposalId) < 0)",
      [workers("test/operator/orders.test.ts")],
    ],
    [
      "a decided one opened by SQL",
      "kind = ${kind} AND details IS NOT NULL",
      "kind = '' AND details IS NOT NULL",
      [workers("test/operator/orders.test.ts")],
    ],
  ]),
  ...of("event mac", "src/audit/event-mac.ts", [
    ["its id not covered", "return [id, kind,", "return [kind,", [EVENT_MAC, RIGHTS]],
    ["its details not covered", "ip, subjectId, details];", "ip, subjectId];", [EVENT_MAC]],
  ]),
  ...of("forged event", "src/audit/event-details.ts", [
    [
      "genuine without details",
      "details !== null || Object.hasOwn(DETAILED, kind)",
      "details !== null",
      [RIGHTS],
    ],
  ]),
  ...of("forged event", "src/auth/compare-rights.ts", [
    ["unseen", "needsMac(event) && !isGenuine(keys, event)", "event.seq < 0", [RIGHTS]],
  ]),
  ...of("forged event", "src/audit/verify.ts", [
    [
      "unseen in the log",
      'isAuthentic(settings, row) ? undefined : "forged"',
      "undefined",
      [RIGHTS],
    ],
    [
      "unseen before its seal",
      "if (!isAuthentic(this.#settings, row))",
      "if (row.auditSeq < 0)",
      [RIGHTS],
    ],
  ]),
  ...of("rights", "src/auth/rights.ts", [
    [
      "revived sessions unseen",
      "return sessionEpoch < sessionsEnded",
      "return sessionEpoch < 0",
      [RIGHTS],
    ],
    [
      "an undone revocation unseen",
      "if (revoked !== undefined)",
      "if (revoked === null)",
      [RIGHTS],
    ],
    [
      "a key without an event unseen",
      'if (created === undefined) return [{ what, detail: "no audit event made this key" }];',
      "if (created === undefined) return [];",
      [RIGHTS],
    ],
    [
      "a cancelled change still waits",
      "cancel !== undefined && from > cancel.at",
      "cancel !== undefined && from < 0",
      [RIGHTS],
    ],
    [
      "the last freeze compared",
      "(one, other) => one.seq - other.seq",
      "(one, other) => other.seq - one.seq",
      [RIGHTS],
    ],
  ]),
];
