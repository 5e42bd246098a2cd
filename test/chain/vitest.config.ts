import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";
import { testSettings } from "../support/settings.ts";

const migrations = await readD1Migrations("./migrations");

export default defineConfig({
  plugins: [
    cloudflareTest({
      wrangler: { configPath: "./wrangler.toml" },
      miniflare: { bindings: { ...testSettings(), TEST_MIGRATIONS: migrations } },
    }),
  ],
  test: {
    name: "chain",
    include: ["test/chain/**/*.anvil.ts"],
    globalSetup: ["./test/chain/support/anvil.setup.ts"],
    setupFiles: ["./test/support/setup.ts"],
    fileParallelism: false,
    isolate: false,
    testTimeout: 60_000,
    deps: { optimizer: { ssr: { enabled: true, include: ["viem", "drizzle-orm", "@hono/zod-openapi"] } } },
  },
});
