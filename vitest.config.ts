import { availableParallelism } from "node:os";
import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";
import { buildConsole } from "./packages/console/build.ts";
import { buildReference } from "./scripts/build-reference.ts";
import { FileOrder } from "./test/support/node/file-order.ts";
import { useMemoryDirectory } from "./test/support/node/memory-directory.ts";
import { testSettings } from "./test/support/settings.ts";

// wrangler would warn of missing secrets, which are settings of the tests.
process.env["WRANGLER_LOG"] ??= "error";
useMemoryDirectory();
// wrangler builds these before it bundles; the plugin for tests does not.
await buildReference();
await buildConsole();
/** Much longer than any test takes, because a busy machine must not fail one. */
const PATIENCE_MS = 300_000;
/** Journeys of the release run only. docs/testing.md says what proves them before. */
const RELEASE_JOURNEYS = [
  "chain-kill",
  "client-browser",
  "console",
  "console-account",
  "console-replay",
  "console-stories",
  "deadline",
  "deploy",
  "drill",
  "demo",
  "failpoint",
  "generated-clients",
  "living-market",
  "maker-kill",
  "makers",
  "old-records",
  "operator-tool",
  "price-race",
  "prometheus",
  "python-package",
  "reference",
  "restore",
  "rfq-kill",
  "seal-kill",
  "secrets",
  "stack-dev",
  "upgrade",
  "vault-upgrade",
  "webhook-kill",
  "wrangler-dev",
].map((name) => `test/journeys/${name}.test.ts`);
/** `full` for the release run: test/support/depth.ts. Workerd sees no other environment. */
const TEST_DEPTH = process.env["TEST_DEPTH"] ?? "small";

export default defineConfig({
  test: {
    // Every request logs a line; a failing test shows its own.
    silent: "passed-only",
    // Tests wait for blocks, restarts and time limits, so one more than cores keeps those busy.
    maxWorkers: availableParallelism() + 1,
    sequence: { sequencer: FileOrder },
    reporters: ["default", "./test/support/node/closing-line.ts"],
    projects: [
      {
        test: {
          name: "node",
          environment: "node",
          include: ["test/**/*.node.test.ts"],
          exclude: ["test/contracts/**", "test/simulator/**", "test/journeys/**"],
          testTimeout: PATIENCE_MS,
          // A process of its own for each file would load the same modules ninety times.
          isolate: false,
          setupFiles: ["./test/support/node/real-timers.ts"],
        },
      },
      {
        test: {
          name: "contracts",
          environment: "node",
          include: ["test/contracts/**/*.node.test.ts"],
          testTimeout: PATIENCE_MS,
        },
      },
      {
        test: {
          name: "simulator",
          environment: "node",
          include: ["test/simulator/**/*.node.test.ts"],
          testTimeout: PATIENCE_MS,
          hookTimeout: PATIENCE_MS,
        },
      },
      // Real workerd, D1, Durable Objects and queue. Each worker of vitest has a D1 of its own,
      // which its files share, so every test makes users, books and assets of its own.
      {
        plugins: [
          // Called for each run, because scripts/mutants/ changes migrations between two of them.
          cloudflareTest(async () => ({
            wrangler: { configPath: "./wrangler.toml" },
            miniflare: {
              bindings: {
                ...testSettings(),
                TEST_MIGRATIONS: await readD1Migrations("./migrations"),
                TEST_DEPTH,
              },
              // For tests that fill what the others share, and for tests that damage records.
              d1Databases: {
                SPARE_DB: "spare",
                DELIVERED_DB: "delivered",
                OUTBOUND_DB: "outbound",
                HEARTBEAT_DB: "heartbeat",
                DAMAGED_DB: "damaged",
                UNREADABLE_DB: "unreadable",
                AUDIT_DB: "audit",
                LISTED_DB: "listed",
                SEALED_DB: "sealed",
                VERIFIED_DB: "verified",
                RELEASED_DB: "released",
                SCANNED_DB: "scanned",
                COLD_DB: "cold",
                RECORDS_DB: "records",
                SEALER_DB: "sealer",
                ALERTED_DB: "alerted",
                DRIFTED_DB: "drifted",
                BACKLOG_DB: "backlog",
                EDITED_DB: "edited",
                OWNERS_DB: "owners",
                LEVELS_DB: "levels",
                AHEAD_DB: "ahead",
                CANDLES_DB: "candles",
                LIABLE_DB: "liable",
              },
            },
          })),
        ],
        test: {
          name: "workers",
          include: ["test/**/*.test.ts", "test/**/*.anvil.ts"],
          exclude: ["test/**/*.node.test.ts", "test/journeys/**"],
          globalSetup: [
            "./test/chain/support/anvil.setup.ts",
            "./test/support/node/receiver.setup.ts",
          ],
          testTimeout: PATIENCE_MS,
          setupFiles: ["./test/support/setup.ts"],
          // test/support/log-of-failed-tests.ts says why.
          disableConsoleIntercept: true,
          isolate: false,
          deps: {
            optimizer: {
              ssr: {
                enabled: true,
                // One file each, because workerd fetches the files of a library one by one.
                include: [
                  "@asteasolutions/zod-to-openapi",
                  "@noble/hashes/hmac.js",
                  "@noble/hashes/sha2.js",
                  "@noble/hashes/sha3.js",
                  "@noble/hashes/utils.js",
                  "drizzle-orm",
                  "drizzle-orm/d1",
                  "drizzle-orm/sqlite-core",
                  "fast-check",
                  "hono",
                  "jose",
                  "otpauth",
                  "viem",
                  "viem/accounts",
                  "zod",
                ],
              },
            },
          },
        },
      },
      {
        test: {
          name: "journeys",
          environment: "node",
          include: ["test/journeys/**/*.test.ts"],
          exclude: TEST_DEPTH === "full" ? [] : RELEASE_JOURNEYS,
          globalSetup: [
            "./test/support/node/client.setup.ts",
            "./test/support/node/bundles.setup.ts",
            "./test/support/node/receiver.setup.ts",
          ],
          testTimeout: PATIENCE_MS,
          hookTimeout: PATIENCE_MS,
          // Those of one worker share a stack.
          isolate: false,
        },
      },
    ],
  },
});
