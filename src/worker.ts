import { createApp } from "./app.ts";
import { runCron } from "./cron.ts";
import { handleWithdrawalMessages } from "./custody/withdrawal-doorbell.ts";

export { ChainWatcher } from "./custody/chain-watcher.ts";
export { Payer } from "./custody/payer.ts";
export { Operator } from "./operator/entrypoint.ts";
export { RfqBook } from "./rfq/rfq-book.ts";
export { Feed } from "./streams/feed.ts";

const app = createApp();

export default {
  fetch: (request, env, context) => app.hono.fetch(request, env, context),
  queue: handleWithdrawalMessages,
  scheduled: (_controller, env) => runCron(env),
} satisfies ExportedHandler<Env>;
