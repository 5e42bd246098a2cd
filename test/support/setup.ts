import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { setHashPause } from "../../src/auth/hash-turns.ts";
import { printLogOfFailedTests } from "./log-of-failed-tests.ts";

printLogOfFailedTests();
setHashPause(0);
await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
