/** All contract tests on one anvil: starting one for each file would cost more than the tests. */
import { afterAll, describe, expect, it, vi } from "vitest";
import { startChain } from "./chain.ts";
import { factoryTests } from "./factory.ts";
import { gasTests } from "./gas.ts";
import { hostileTests } from "./hostile.ts";
import { limitTests } from "./limits.ts";
import { migrationTests } from "./migration.ts";
import { payTests } from "./pay.ts";
import { rescueTests } from "./rescue.ts";
import { stolenPayerTests } from "./stolen-payer.ts";
import { runSequences } from "./sequences.ts";
import { inRelease, rounds } from "../support/depth.ts";

// The gas scans send hundreds of transactions each; a loaded machine takes its time.
vi.setConfig({ testTimeout: 300_000 });

const chain = await startChain();
afterAll(() => chain.stop());

describe("Vault: paying and voiding", () => payTests(chain));
describe("Vault: hostile tokens and recipients", () => hostileTests(chain));
describe("Vault: limits", () => limitTests(chain));
describe("Vault: roles, pause, migration", () => migrationTests(chain));
describe("Vault: rescue", () => rescueTests(chain));
describe("a thief with the payer's key", () => stolenPayerTests(chain));
describe("DepositFactory", () => factoryTests(chain));
inRelease(() => describe("gas limits", () => gasTests(chain)));
describe("random sequences", () => {
  it("contracts and model agree about every sequence", async () => {
    const { sequences, failure } = await runSequences(chain, {
      numRuns: rounds(1, 200),
      maxSteps: 40,
      timeLimitMs: rounds(6_000, 240_000),
    });
    expect(failure).toBeNull();
    expect(sequences).toBeGreaterThan(0);
  });
});
