import { expect, it } from "vitest";
import { findCulprits } from "../../src/rfq/set-aside.ts";

const ids = Array.from({ length: 200 }, (_, index) => String(index));

/** A batch that fails if it contains a bad id. Records what was ended. */
function batches(bad: readonly string[]) {
  const ended: string[] = [];
  let attempts = 0;
  const attempt = (some: readonly string[]) => {
    attempts++;
    const fits = some.every((id) => !bad.includes(id));
    if (fits) ended.push(...some);
    return Promise.resolve(fits);
  };
  return { attempt, ended, attempts: () => attempts };
}

it.each([[[]], [["0"]], [["199"]], [["3", "4", "150"]], [ids]])(
  "finds the culprits and ends all others",
  async (bad) => {
    const { attempt, ended } = batches(bad);
    expect(await findCulprits(ids, attempt)).toEqual(bad);
    expect(ended).toEqual(ids.filter((id) => !bad.includes(id)));
  },
);

it("finds one culprit among 200 in at most 17 batches", async () => {
  const { attempt, attempts } = batches(["77"]);
  await findCulprits(ids, attempt);
  expect(attempts()).toBeLessThanOrEqual(17);
});
