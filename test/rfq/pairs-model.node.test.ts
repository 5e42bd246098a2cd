/** Pairs against a model: what everybody holds, what the pair holds, and who is paid. */
import { expect, it } from "vitest";
import { rounds } from "../support/depth.ts";
import { runPairs } from "../support/node/pairs-model.ts";

it("pays every holder once, and never lacks the USDC", async () => {
  for (let seed = 1; seed <= rounds(1, 100); seed++)
    for (const onChain of [false, true])
      expect(await runPairs(seed, 40, onChain)).toBeGreaterThan(10);
}, 600_000);
