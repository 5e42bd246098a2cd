/** Wraps the bundle so that a bench can run the scheduled handler beside its load. */
import worker from "./worker.js";

export * from "./worker.js";

export default {
  ...worker,
  async fetch(request, env, context) {
    if (new URL(request.url).pathname !== "/bench/cron") return worker.fetch(request, env, context);
    await worker.scheduled({ cron: "* * * * *", scheduledTime: Date.now() }, env, context);
    return new Response();
  },
};
