/** What is mutated by structure, and which tests may catch it. */

/**
 * Files and triggers, and their tests in the order in which they run. The longest beginning of a
 * mutant's name counts.
 */
export const SCOPE: Readonly<Record<string, string>> = {
  "src/archive/release.ts": "archive/release",
  "src/auth/approve-key.ts": "auth/withdraw-keys",
  "src/auth/authenticate.ts": "auth/api-key auth/security",
  "src/auth/exposure.ts": "rfq/trade-limits custody/withdrawal-policy auth/policy",
  "src/auth/hold.ts":
    "auth/bystander auth/who-may operator/reset-account auth/change-password auth/totp auth/stolen",
  "src/auth/login.ts register": "auth/session platform/growth",
  "src/auth/may-write.ts": "auth/who-may operator/reset-account auth/step-up-race",
  "src/auth/mint-key.ts":
    "auth/api-key auth/withdraw-keys auth/policy auth/who-may platform/growth",
  "src/auth/policy.ts": "auth/policy",
  "src/auth/routes.ts": "auth/key-limits auth/withdraw-keys",
  "src/auth/step-up.ts": "auth/api-key",
  "src/auth/ws-ticket.ts": "auth/ws-ticket auth/who-may platform/growth",
  "src/chain/":
    "chain/pure chain/guards chain/deposits chain/withdrawals chain/halts chain/nodes " +
    "chain/witnesses chain/alerts chain/rotated-key chain/restore",
  "src/custody/":
    "custody/withdraw custody/withdrawal-policy custody/reads custody/withdrawal-races " +
    "chain/withdrawals chain/paid-otherwise chain/restore-claimed operator/commands",
  "src/custody/approve-withdrawal.ts": "custody/withdrawal-policy auth/who-may",
  "src/custody/cancel-withdrawal.ts": "custody/cancel-withdrawal auth/who-may",
  "src/custody/change-withdrawal.ts":
    "custody/cancel-withdrawal auth/who-may custody/withdrawal-races custody/withdrawal-policy",
  "src/custody/payer/":
    "chain/withdrawals chain/guards chain/halts chain/restore chain/restore-claimed " +
    "chain/paid-otherwise chain/removed-payment chain/foreign-batch chain/payment-limit " +
    "chain/nodes chain/rotated-key chain/alerts chain/deadline custody/recovery-records " +
    "chain/bystander",
  "src/custody/payer/make-transaction.ts":
    "chain/payer-guard chain/withdrawals chain/bystander chain/nodes chain/paid-otherwise",
  "src/custody/payer/payer-lease.ts": "chain/payer-guard chain/halts chain/bystander chain/nodes",
  "src/custody/payer/agreed-reads.ts":
    "chain/deep-reorg chain/agreed chain/nodes chain/withdrawals",
  "src/custody/payer/alert-late.ts": "custody/removed-chain chain/alerts",
  "src/custody/payer/carry-out-commands.ts":
    "custody/withdrawal-races custody/cancel-withdrawal chain/withdrawals",
  "src/custody/payer/restore-payments.ts":
    "chain/restore chain/restore-claimed chain/paid-otherwise chain/removed-payment chain/halts " +
    "custody/recovery-records",
  "src/custody/payer/reopen-transactions.ts":
    "chain/removed-payment chain/paid-otherwise chain/restore chain/restore-claimed " +
    "chain/withdrawals chain/foreign-batch",
  "src/custody/payer/sweep-deposits.ts": "chain/sweeps chain/vanished-deposits",
  "src/custody/routes.ts": "custody/withdraw custody/withdrawal-policy",
  "src/custody/watcher/":
    "chain/deposits chain/guards chain/halts chain/vanished-deposits chain/rescan chain/agreed " +
    "chain/witnesses chain/restore custody/receivers custody/small-deposits chain/bystander",
  "src/custody/watcher/read-confirmed.ts": "chain/rescan chain/agreed chain/witnesses chain/nodes",
  "src/custody/watcher/credit-deposit.ts":
    "chain/deposits chain/guards custody/limits custody/small-deposits chain/vanished-deposits",
  "src/custody/watcher/settle-withdrawal.ts":
    "chain/guards custody/vault-events chain/withdrawals chain/restore-claimed " +
    "chain/paid-otherwise chain/removed-payment chain/restore chain/foreign-batch chain/hostile",
  "src/custody/watcher/small-deposits.ts":
    "custody/small-deposits custody/small-deposit-size custody/small-deposits-random " +
    "chain/small-deposits",
  "src/custody/withdraw.ts":
    "custody/withdraw custody/limits auth/who-may custody/withdrawal-policy rfq/deadline " +
    "chain/restore-claimed",
  "src/custody/withdrawal-addresses.ts": "custody/withdrawal-policy auth/who-may auth/stolen",
  "src/custody/withdrawal-policy.ts": "custody/withdrawal-policy",
  "src/feeds/": "feeds/webhooks feeds/webhook-changes auth/bystander streams/streams",
  "src/http/define-route.ts": "http/edge http/venues docs/bad-input ledger/statement",
  "src/ledger/statement.ts": "ledger/statement",
  "src/platform/deadline.ts": "rfq/deadline",
  "src/rfq/standing-accept.ts": "rfq/standing-accept auth/who-may",
  "src/rfq/last-price.ts": "rfq/protection",
  "src/rfq/cancel-on-disconnect.ts": "rfq/disconnect",
  "src/rfq/cancel-after.ts": "rfq/cancel-after auth/who-may",
  "src/rfq/cancel-quote.ts": "rfq/preconditions rfq/book auth/who-may rfq/races",
  "src/rfq/cancel-quotes.ts": "rfq/preconditions auth/who-may rfq/close",
  "src/rfq/cancel-request.ts": "rfq/book auth/who-may rfq/races rfq/preconditions",
  "src/rfq/close-quotes.ts": "rfq/set-aside rfq/close rfq/cancel-after rfq/protection",
  "src/rfq/idempotency.ts": "rfq/preconditions rfq/place-quote rfq/book",
  "src/rfq/open-request.ts":
    "rfq/preconditions auth/who-may rfq/markets rfq/limits rfq/deadline rfq/trade-limits",
  "src/rfq/pairs/": "rfq/pairs rfq/pairs-model auth/who-may",
  "src/rfq/protection.ts": "rfq/protection auth/who-may rfq/set-aside",
  "src/rfq/read-commands.ts": "rfq/several-quotes",
  "src/rfq/routes.ts": "rfq/several-quotes",
  "src/rfq/socket-commands.ts": "rfq/several-quotes rfq/fairness",
  "src/rfq/trade-limits.ts": "rfq/trade-limits auth/policy",
  "trigger accept_commands_accept":
    "rfq/book rfq/accept-price rfq/preconditions auth/who-may rfq/races rfq/markets rfq/limits " +
    "rfq/cancel-after rfq/trade-limits rfq/deadline rfq/clock-ahead rfq/positions rfq/set-aside " +
    "rfq/backing rfq/protection rfq/standing-accept ledger/amounts rfq/pairs-model",
  "trigger accounts_": "ledger/guards rfq/row-guards platform/append-only rfq/positions",
  "trigger event_runs_": "platform/append-only streams/streams",
  "trigger matches_":
    "platform/append-only rfq/protection rfq/protection.clock archive/release ledger/guards",
  "trigger quote_commands_place":
    "rfq/preconditions rfq/book rfq/place-quote rfq/replace auth/who-may rfq/trade-limits " +
    "rfq/markets rfq/protection rfq/protection.clock rfq/disconnect rfq/cancel-after rfq/deadline rfq/limits " +
    "rfq/two-way rfq/races auth/policy",
  "trigger quotes_": "rfq/row-guards platform/append-only rfq/set-aside archive/release rfq/book",
  "trigger requests_end_accept": "rfq/standing-accept rfq/set-aside rfq/book",
  "trigger requests_": "platform/append-only archive/release rfq/set-aside rfq/book",
  "trigger transfers_": "ledger/guards platform/append-only archive/release ledger/amounts",
  "trigger withdrawals_":
    "platform/append-only custody/withdraw custody/cancel-withdrawal chain/withdrawals",
};

/** Mutants that no test can notice, and why. They are not run. */
export const EQUIVALENT: Readonly<Record<string, string>> = {
  "src/auth/exposure.ts withdrawnLastDay: without created_at >= ${from} - ${literal(APPROVAL_MS)}":
    "The term after it decides. This one is for the index.",
  "src/auth/hold.ts factorsPrecedeFreeze: without t.status = 'confirmed'":
    "A pending secret is younger than any delay of a deployment.",
  "src/custody/payer/agreed-reads.ts atConfirmed: without await requireConfirmed(endpoint, confirmed);":
    "The reads name the block by its hash and require that it is canonical.",
  "src/custody/change-withdrawal.ts changeWithdrawal: without ${mine}":
    "A group changes one withdrawal. The term is for the index.",
  "src/custody/withdraw.ts needsApproval: without p.withdraw_approval_above IS NOT NULL":
    "A comparison with NULL is not true. The term saves the sum.",
  "src/custody/withdrawal-policy.ts allowedByPolicy: without p.withdraw_max_usdc_per_day IS NOT NULL":
    "A comparison with NULL is not true. The term saves the sum.",
  "src/custody/withdraw.ts withdraw: without ${mine}":
    "A group queues one withdrawal. The term is for the index.",
  "src/custody/withdraw.ts withdraw: without w.queued_group = ${group.seq}":
    "The id is new, so only this group can have inserted it.",
  "src/rfq/trade-limits.ts keyAllows: without k.limits ->> 'max_usdc_per_day' IS NOT NULL":
    "A comparison with NULL is not true. The term saves the sum.",
  "src/rfq/trade-limits.ts keyAllows: without k.limits ->> 'venues' IS NOT NULL":
    "The position of a text in NULL is NULL, so the comparison is not true.",
  "src/rfq/trade-limits.ts keyAllows: without k.limits IS NOT NULL":
    "Each member of NULL is NULL, and a comparison with it is not true.",
  "src/rfq/trade-limits.ts accountAllows: without p.max_trade_usdc_per_day IS NOT NULL":
    "A comparison with NULL is not true. The term saves the sum.",
  "src/rfq/trade-limits.ts limitFacts: without k.limits IS NOT NULL":
    "Only keyLimit reads the fact, after keyAllows did not hold. It holds for a key without limits.",
  "trigger accounts_sums: without (SELECT iif(reason = 6, amount, 0) FROM transfers ORDER BY transfer_id DESC LIMIT 1) IS NOT NEW.traded - OLD.traded":
    "Only transfers_post moves a balance, and it adds what the trade moved.",
  "trigger accounts_update: without OLD.balance = t.from_balance + t.amount":
    "After the transfer the account already has that balance.",
  "trigger accounts_update: without OLD.balance = t.to_balance - t.amount":
    "After the transfer the account already has that balance.",
  "trigger requests_delete: without SELECT RAISE(ABORT, 'append-only: an open request') WHERE OLD.status = 'open';":
    "It has no ended_group, so the statement after it rejects it, too.",
  "src/custody/payer/make-transaction.ts guard: without w.chain = ${chain}":
    "The payer reads the withdrawals of its chain, which never changes.",
  "src/custody/payer/payer-lease.ts hasLease: without chain = ${chain}":
    "No two leases have the same token.",
  "src/rfq/last-price.ts lastPrice: without substr(m.asset, -16) = substr(${asset}, -16)":
    "The term after it decides. This one is for the index.",
  "trigger quote_commands_place: without substr(m.asset, -16) = substr(r.asset, -16)":
    "The term after it decides. This one is for the index.",
  "trigger accept_commands_accept: without r.expires_at > NEW.at":
    "A quote does not outlive its request.",
  "trigger requests_end_accept: without OLD.status = 'open'":
    "The status of a request that has ended never changes.",
  "trigger requests_end_accept: without NEW.status <> 'open'":
    "Nothing updates the status of a request to the one it has.",
  "trigger requests_end_accept: without price IS NOT NULL":
    "No price becomes none. The term saves the write.",
  "trigger quote_commands_place: without maker_id = NEW.maker_id":
    "A higher bound only makes the database count the open quotes.",
  "trigger quote_commands_place: without request_id = NEW.request_id (2)":
    "A higher count only makes the database look at the quotes one by one.",
  "trigger quote_commands_place: without status = 'open' (3)":
    "A higher count only makes the database look at the quotes one by one.",
  "trigger quote_commands_place: without request_id = NEW.request_id (4)":
    "A higher count only makes the database look at the quotes one by one.",
  "trigger quote_commands_place: without status = 'open' (7)":
    "A higher count only makes the database look at the quotes one by one.",
  "trigger quote_commands_place: without quote_id IS NOT NEW.replaces (5)":
    "The quote that is replaced has ended before.",
  "trigger quotes_delete: without SELECT RAISE(ABORT, 'append-only: an open quote') WHERE OLD.status = 'open';":
    "It has no ended_group, so the statement after it rejects it, too.",
  "src/rfq/cancel-after.ts timedOut: without maker_id = ${user}":
    "A credential belongs to one user. The term is for the index.",
  "src/rfq/cancel-on-disconnect.ts endArmed: without maker_id = ${uuid(userId)}":
    "A credential belongs to one user. The term is for the index.",
  "src/rfq/cancel-request.ts preconditions: without requests.status <> 'matched'":
    "The last precondition excludes it, too. Only the reason differs.",
  "src/rfq/protection.ts closeTripped: without maker_id = ${uuid(readUuid(id))}":
    "The other makers whose quotes it then closes are tripped, too, and come next.",
};
