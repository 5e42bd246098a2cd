/** Source patches that undo a guard. The simulator must find each of them. */
import { SAFEGUARD_MUTANTS } from "./safeguard-mutants.ts";
import { SEALER_MUTANTS } from "./sealer-mutants.ts";

export type Mutant = {
  readonly name: string;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  /** What it breaks, in words. */
  readonly breaks: string;
};

export const MUTANTS: readonly Mutant[] = [
  {
    name: "accept-by-anyone",
    file: "migrations",
    find: "AND (r.requester_id = NEW.requester_id)",
    replace: "",
    breaks: "only the requester accepts",
  },
  {
    name: "any-price-is-good",
    file: "src/rfq/price-limit.ts",
    find: "expr`o.price <= ${price}`",
    replace: "TRUE",
    breaks: "no accept takes a worse price",
  },
  {
    name: "cancel-by-anyone",
    file: "src/rfq/cancel-quote.ts",
    find: "expr`quotes.maker_id = ${c.user_id}`",
    replace: "expr`1 OR quotes.maker_id = ${c.user_id}`",
    breaks: "only the maker cancels",
  },
  {
    name: "unknown-is-none",
    file: "src/platform/commit.ts",
    find: "throw new OutcomeUnknown(group.id, { cause });",
    replace: 'return { committed: false, reason: "lost", cause };',
    breaks: "none means no effect",
  },
  {
    name: "fence-ignored",
    file: "src/platform/commit.ts",
    find: "return fence(db, group, cause);",
    replace: 'return { committed: false, reason: "lost", cause };',
    breaks: "none means no effect",
  },
  {
    name: "push-ignores-gap",
    file: "src/streams/socket-host.ts",
    find: "if (next.seq === lastPushed + 1 && last.seq === lastPushed + fresh.length)",
    replace: "if (next.seq > 0 && last.seq > 0)",
    breaks: "sockets receive a prefix without a gap",
  },
  {
    name: "join-sends-nothing",
    file: "src/streams/socket-host.ts",
    find: "const upTo = this.#position.last ?? stands;",
    replace: "const upTo = stands;",
    breaks: "sockets receive a prefix without a gap",
  },
  {
    name: "joined-from-memory-off-by-one",
    file: "src/streams/sent-position.ts",
    find: "if (since + 1 < (this.#recent[0]?.seq ?? last + 1)) return undefined;",
    replace: "if (since < (this.#recent[0]?.seq ?? last + 1) - 5) return undefined;",
    breaks: "sockets receive a prefix without a gap",
  },
  {
    name: "promise-kept",
    file: "migrations",
    find: "iif(OLD.stuck_at IS NULL, promised - OLD.reserve,",
    replace: "iif(OLD.stuck_at IS NULL, promised,",
    breaks: "every promise has an open quote",
  },
  {
    name: "cron-expires-nothing",
    file: "src/cron.ts",
    find: '["expire_missed", expireMissed],',
    replace: '["expire_missed", async () => expireMissed.name],',
    breaks: "nothing due stays open",
  },
  {
    name: "any-copy-unregisters",
    file: "src/streams/subscription.ts",
    find: "DELETE FROM stream_subscribers WHERE name = ${this.#stream} AND token = ${token}",
    replace: "DELETE FROM stream_subscribers WHERE name = ${this.#stream} AND ${token} <> ''",
    breaks: "every committed event reaches every open socket",
  },
  {
    name: "valid-sockets-close",
    file: "src/streams/close-ended.ts",
    find: "AND (u.frozen_at IS NOT NULL OR o.opener = u.user_id OR k.revoked_at IS NOT NULL)",
    replace: "",
    breaks: "a socket closes for its credential only while that is not valid",
  },
  {
    name: "expiry-waits-for-idleness",
    file: "src/rfq/group-committer.ts",
    find: "        const batch = this.#nextBatch;\n        this.#nextBatch = undefined;",
    replace:
      "        const batch = group.length > 0 ? undefined : this.#nextBatch;\n" +
      "        if (batch !== undefined) this.#nextBatch = undefined;",
    breaks: "an alarm ends although its book is busy",
  },
  {
    name: "quote-life-from-commit",
    file: "migrations",
    find: "min(NEW.at, NEW.received_at)",
    replace: "NEW.at",
    breaks: "a quote is firm only within its life, from its receipt on",
  },
  {
    name: "commands-wait-for-ever",
    file: "src/rfq/group-committer.ts",
    find: "const inTime = operation.receivedAt >= now() - this.#settings.maxWaitMs;",
    replace: "const inTime = operation.receivedAt >= 0;",
    breaks: "no command is sent to the database after its maximum wait",
  },
  {
    name: "credit-at-the-head",
    file: "src/chain/follow-head.ts",
    find: "const byCount = head - chain.confirmations + 1;",
    replace: "const byCount = head;",
    breaks: "only confirmed deposits are credited",
  },
  {
    name: "shared-rpc-calls",
    file: "src/chain/rpc-transport.ts",
    find: "{ ...more, dedupe: false, signal }",
    replace: "{ ...more, signal }",
    breaks: "a restarted watcher follows the chain",
  },
  ...SEALER_MUTANTS,
  ...SAFEGUARD_MUTANTS,
];
