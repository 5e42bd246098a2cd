import { expect, it } from "vitest";
import { eventMac, isGenuine } from "../../src/audit/event-mac.ts";

const seed = (letter: string) => Buffer.from(letter.repeat(32)).toString("base64url");
const keys = { DEPLOYMENT: "test", AUDIT_KEYS: { a2: seed("b"), a1: seed("a") } };
const content = {
  id: "019a0000-0000-7000-8000-00000000e001",
  kind: "policy_changed",
  actor: "session",
  userId: "01a20000-0000-7000-8000-00000000c585",
  apiKeyId: null,
  ip: "198.51.100.7",
  subjectId: "01a20000-0000-7000-8000-00000000c585",
  details: "[]",
};
const event = { ...content, mac: eventMac(keys, content) };

it("an event verifies while its key is in the ring", () => {
  expect(isGenuine(keys, event)).toBe(true);
  const { a1, a2 } = keys.AUDIT_KEYS;
  expect(isGenuine({ ...keys, AUDIT_KEYS: { a3: seed("c"), a1, a2 } }, event)).toBe(true);
  expect(isGenuine({ ...keys, AUDIT_KEYS: { a3: seed("c"), a1 } }, event)).toBe(false);
  expect(isGenuine({ ...keys, AUDIT_KEYS: { a2: a1 } }, event)).toBe(false);
});

it.each(Object.keys(content))("does not verify with another `%s`", (member) => {
  expect(isGenuine(keys, { ...event, [member]: "019a0000" })).toBe(false);
});

it("does not verify in another deployment", () => {
  expect(isGenuine({ ...keys, DEPLOYMENT: "other" }, event)).toBe(false);
});

it.each([[null], [""], ["a2"], ["a2."], ["a2.AA"], [`a1.${event.mac.slice(3)}`], ["toString.AA"]])(
  "does not verify with the MAC %j",
  (mac) => {
    expect(isGenuine(keys, { ...event, mac })).toBe(false);
  },
);
