import { expect, it } from "vitest";
import { type KeyNetworks, MAX_NEW_PER_DAY, useNetwork } from "../../src/auth/key-networks.ts";

const HOME = "v4:c63364";

it("knows a network for 30 days after its last use, and stores that use once a week", () => {
  const { networks = {}, kind } = useNetwork({}, HOME, 100);
  expect([kind, networks]).toEqual(["first", { [HOME]: [100, 100] }]);
  for (const day of [100, 106]) expect(useNetwork(networks, HOME, day)).toEqual({ kind: "known" });
  expect(useNetwork(networks, HOME, 107)).toEqual({
    kind: "refreshed",
    networks: { [HOME]: [100, 107] },
  });
  const other: KeyNetworks = { ...networks, "v4:cb0071": [100, 120] };
  expect(useNetwork(other, HOME, 129).kind).toBe("refreshed");
  expect(useNetwork(other, HOME, 130)).toEqual({
    kind: "new",
    networks: { "v4:cb0071": [100, 120], [HOME]: [130, 130] },
  });
});

it("reports the use of a key that rested for longer than 30 days", () => {
  const { networks = {} } = useNetwork({}, HOME, 100);
  expect(useNetwork(networks, "v4:cb0071", 131).kind).toBe("new");
});

it("remembers the eight networks that were used last, and bounds the new ones of a day", () => {
  let networks: KeyNetworks = {};
  for (let day = 0; day < 20; day++)
    ({ networks = networks } = useNetwork(networks, `v4:${day}`, day));
  expect(Object.keys(networks)).toEqual(
    expect.arrayContaining([12, 13, 14, 15, 16, 17, 18, 19].map((day) => `v4:${day}`)),
  );
  expect(Object.keys(networks)).toHaveLength(8);
  const kinds = Array.from({ length: 8 }, (_, index) => {
    const use = useNetwork(networks, `v6:${index}`, 20);
    networks = use.networks ?? networks;
    return use.kind;
  });
  expect(kinds.filter((kind) => kind === "new")).toHaveLength(MAX_NEW_PER_DAY);
  expect(kinds.at(-1)).toBe("too_many");
});
