import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { setRetryPauses } from "../../src/platform/time.ts";
import { setTestHashCost } from "./hash-cost.ts";
import { printLogOfFailedTests } from "./log-of-failed-tests.ts";

printLogOfFailedTests();
setTestHashCost();
setRetryPauses(1 / 20);
await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
