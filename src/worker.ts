import { createApp } from "./app.ts";
import { runCron } from "./cron.ts";
import { handleWithdrawalMessages } from "./custody/payer/wake-payer.ts";

export { Cron } from "./cron.ts";
export { History } from "./archive/history-object.ts";
export { Sealer } from "./reconcile/scanning-sealer.ts";
export { ChainWatcher } from "./custody/watcher/chain-watcher.ts";
export { Metrics } from "./platform/metrics-object.ts";
export { Payer } from "./custody/payer/payer.ts";
export { Operator } from "./operator/entrypoint.ts";
export { RfqBook } from "./rfq/rfq-book.ts";
export { Feed } from "./feeds/feed.ts";
export { Webhook } from "./feeds/webhooks/webhook.ts";

const app = createApp();

export default {
  fetch: (request, env, context) => app.hono.fetch(request, env, context),
  queue: handleWithdrawalMessages,
  scheduled: (_controller, env) => runCron(env),
} satisfies ExportedHandler<Env>;
