import { describe, expect, it } from "vitest";
import { readOperations, readSocketCommands } from "../../scripts/soak/verbs/operations.ts";
import { NOT_USED, VerbUse } from "../../scripts/soak/verb-use.ts";

const operations = readOperations();
const used = (verbs: VerbUse, method: string, path: string, error: unknown = null) =>
  verbs.onResponse({ method, path, attempt: 1, durationMs: 1, error });

describe("the verbs that a soak has used", () => {
  it("are missing until each documented one has succeeded", () => {
    const verbs = new VerbUse();
    for (const { method, path } of operations) used(verbs, method, path, new Error("rejected"));
    const { length: exempt } = Object.keys(NOT_USED);
    const commands = readSocketCommands();
    expect(verbs.unused()).toHaveLength(operations.length + commands.length - exempt);
    for (const { method, path } of operations) used(verbs, method, path);
    expect(verbs.unused()).toEqual(commands.map(({ op }) => `socket ${op}`));
    for (const { op } of commands) verbs.use(`socket ${op}`);
    expect(verbs.unused()).toEqual([]);
  });

  it("leave out documented operations only", () => {
    const names = operations.map(({ name }) => name);
    expect(Object.keys(NOT_USED).filter((name) => !names.includes(name))).toEqual([]);
  });
});
