import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { setTestHashCost } from "./hash-cost.ts";
import { printLogOfFailedTests } from "./log-of-failed-tests.ts";

printLogOfFailedTests();
setTestHashCost();
await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
