import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { setRetryPauses } from "../../src/platform/time.ts";
import { setTestHashCost } from "./hash-cost.ts";
import { printLogOfFailedTests } from "./log-of-failed-tests.ts";

printLogOfFailedTests();
setTestHashCost();
setRetryPauses(1 / 20);
await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
// Numbers of streams jump after a restore, which an earlier file of this worker may have tested.
await env.DB.prepare("DELETE FROM removed_streams").run();
