import { expect, it } from "vitest";
import { newGroup } from "../../src/platform/commit.ts";
import { raw } from "../../src/platform/sql.ts";
import { composeOperations, type BookOperation } from "../../src/rfq/book-operation.ts";

/** Two kinds of set. Each set is one statement, which lists its members. */
const [PLACE, CANCEL] = ["place", "cancel"].map((word) => ({
  statements: (_group: unknown, rows: readonly Readonly<Record<string, unknown>>[]) => [
    raw(`${word} ${rows.map(({ id }) => String(id)).join(" ")}`),
  ],
}));

type Sketch = readonly [
  kind: "place" | "cancel" | "accept",
  id: string,
  user: string,
  names?: string,
];

const operation = ([kind, id, userId, named = id]: Sketch): BookOperation => {
  const set = { place: PLACE, cancel: CANCEL, accept: undefined }[kind];
  return {
    userId,
    receivedAt: 0,
    makes: null,
    names: [named],
    ...(set === undefined ? {} : { set: { kind: set, row: { id } } }),
    statements: () => [raw(`${kind} ${id}`)],
    result: () => undefined,
    rejection: () => {
      throw new Error("not asked");
    },
  };
};

it.each<[rule: string, operations: Sketch[], composed: string[]]>([
  [
    "joins one kind across others",
    [
      ["place", "1", "ann"],
      ["cancel", "2", "bob"],
      ["place", "3", "cay"],
      ["accept", "4", "dan"],
      ["cancel", "5", "eve"],
    ],
    ["place 1 3", "cancel 2 5", "accept 4"],
  ],
  [
    "keeps the order of a user's commands",
    [
      ["place", "1", "ann"],
      ["cancel", "2", "bob"],
      ["place", "3", "bob"],
      ["place", "4", "ann"],
    ],
    ["place 1 4", "cancel 2", "place 3"],
  ],
  [
    "keeps the order of commands on one record",
    [
      ["cancel", "1", "ann"],
      ["accept", "2", "bob", "quote"],
      ["cancel", "3", "cay", "quote"],
    ],
    ["cancel 1", "accept 2", "cancel 3"],
  ],
])("%s", (_rule, operations, composed) => {
  const statements = composeOperations(newGroup(), operations.map(operation));
  expect(statements.map(({ text }) => text)).toEqual(composed);
});
