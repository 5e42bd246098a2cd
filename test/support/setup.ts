import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { printLogOfFailedTests } from "./log-of-failed-tests.ts";

printLogOfFailedTests();
await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
