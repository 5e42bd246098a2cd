import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { log } from "../../src/platform/log.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { keptLines } from "../support/log-of-failed-tests.ts";

/**
 * The last test of this file, because it logs in another context while the file ends. With vitest's
 * console the run would hang here: see test/support/log-of-failed-tests.ts.
 */
it("a test file ends while an object still logs", async () => {
  const id = uuidv7();
  await runInDurableObject(env.PAYER.getByName(id), () => {
    let left = 200;
    const timer = setInterval(() => {
      log("info", "test.log_after_the_end", { id });
      if (--left === 0) clearInterval(timer);
    }, 2);
  });
  await expect.poll(() => keptLines().some((line) => line.includes(id))).toBe(true);
});
