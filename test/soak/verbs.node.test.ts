/** `npm run soak -- verbs` knows every operation, command and field that the descriptions publish. */
import { describe, expect, it } from "vitest";
import { type Caller, Ids, nextCode } from "../../scripts/actors/callers.ts";
import { drawKind, makeCase, makeFrame } from "../../scripts/soak/verbs/cases.ts";
import { readOperations, readSocketCommands } from "../../scripts/soak/verbs/operations.ts";
import { fieldsWithoutSource, type Scene } from "../../scripts/soak/verbs/values.ts";
import { Dice } from "../../scripts/actors/dice.ts";
import { routesOf, readDescription } from "../support/node/client-calls.ts";
import { readStreamDescription } from "../../scripts/openapi/conformance.ts";

const operations = readOperations();
const commands = readSocketCommands();

const caller: Caller = {
  email: "caller@fuzz.example",
  ip: "10.0.0.1",
  password: "correct horse battery",
  token: "token",
  keys: [],
  totpSecret: undefined,
  newTotpSecret: undefined,
  recoveryCodes: [],
  totpStep: 0,
};
const sceneOf = (operation: string, seed: string): Scene => ({
  dice: new Dice(seed),
  caller,
  ids: new Ids(),
  operation,
});

describe("the cases of a soak", () => {
  it("reads every documented operation and socket command", () => {
    const names = operations.map(({ name }) => name);
    expect(names).toEqual(
      expect.arrayContaining(routesOf(readDescription()).map(({ name }) => name)),
    );
    expect(commands.map(({ op }) => op).toSorted()).toEqual(
      ["accept", "cancel_quote", "quote", "quotes"].toSorted(),
    );
  });

  it.each([
    ...operations.map(({ name, fields }) => [name, fields] as const),
    ...commands.map(({ op, fields }) => [op, fields] as const),
  ])("knows values of every field of %s", (_name, fields) => {
    expect(fieldsWithoutSource(fields)).toEqual([]);
  });

  it("requires what each variant of a body requires", () => {
    const { fields = [] } = operations.find(({ name }) => name === "POST /rfq/request") ?? {};
    const required = fields.filter((field) => field.required).map(({ name }) => name);
    expect(required.toSorted()).toEqual(["asset_id", "side", "venue_id"]);
  });

  it("notices a field that it does not know", () => {
    const field = {
      name: "secret_id",
      in: "body",
      required: true,
      schema: { type: "string" },
    } as const;
    expect(fieldsWithoutSource([field])).toEqual(["secret_id"]);
    const nested = { ...field, name: "list", schema: { type: "array", items: field.schema } };
    expect(fieldsWithoutSource([nested])).toEqual(["list[]"]);
  });

  it("makes valid frames that fit the description", () => {
    const description = readStreamDescription();
    for (const command of commands)
      for (let seed = 0; seed < 50; seed++) {
        const { frame, id } = makeFrame(sceneOf(command.op, String(seed)), command, "valid");
        expect(id).toBeDefined();
        expect(description.errorsOfCommand(JSON.parse(frame))).toEqual([]);
      }
  });

  it("makes cases of every kind that a client can send", () => {
    const kinds = new Set<string>();
    for (const operation of operations)
      for (let seed = 0; seed < 30; seed++) {
        const scene = sceneOf(operation.name, `${operation.name}/${seed}`);
        const kind = drawKind(scene.dice);
        kinds.add(kind);
        const { target, body, headers } = makeCase(scene, operation, kind);
        const url = new URL(target, "http://fuzz.example");
        expect(url.pathname).toBe(operation.path);
        const init = { method: operation.method, headers, ...(body === undefined ? {} : { body }) };
        expect(() => new Request(url, init)).not.toThrow();
      }
    expect([...kinds].toSorted()).toEqual(["invalid", "near", "valid"]);
  });

  it("uses each one-time code once", () => {
    const owner: Caller = { ...caller, totpSecret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP" };
    const codes = [nextCode(owner), nextCode(owner), nextCode(owner), nextCode(owner)];
    expect(new Set(codes.slice(0, 3)).size).toBe(3);
    expect(codes.slice(0, 3)).not.toContain(undefined);
    expect(codes[3]).toBeUndefined();
  });
});
