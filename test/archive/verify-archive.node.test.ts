/** `journal verify` over parts, without a database. */
import { describe, expect, it } from "vitest";
import type { OwnerEnds } from "../../src/archive/owner-ends.ts";
import type { OwnerLink } from "../../src/archive/owner-ends.ts";
import { type Source, verifyArchive } from "../../scripts/operator/verify-archive.ts";
import type { CheckedSeal, Discrepancy } from "../../src/archive/verify-parts.ts";

const id = (number: number) => ({ epoch: 1, number });
const TIMES = { requestAt: null, quoteAt: null, matchAt: null };
const ends = (first: number, last: number): OwnerEnds => ({ first, last: id(last), ...TIMES });
const block = (owner: string, seal: number, previous: number | null): OwnerLink => ({
  owner,
  previous: previous === null ? null : id(previous),
  ends: ends(seal, seal),
});

type Part = Partial<NonNullable<CheckedSeal["content"]>> & {
  readonly unread?: true;
  readonly discrepancies?: readonly Discrepancy[];
};

/** One seal each, from the first on. */
function sourceOf(
  parts: readonly Part[],
  { rows = [], balances = [] }: { rows?: [string, OwnerEnds][]; balances?: string[] } = {},
): Source {
  const last = parts.length;
  const accounts = balances.map((balance, n) => ({
    id: n + 1,
    account: `a${n}`,
    sealed: balance,
  }));
  const checked = ({ unread, moved = [], owners = [], discrepancies = [] }: Part, n: number) => ({
    head: { ...id(n), sha256: "", transfers: 0, bytes: 0 },
    content: unread ? null : { moved, owners },
    discrepancies,
  });
  return {
    seals: async (from) => ({
      seals: parts.slice(from - 1, from).map((part) => checked(part, from)),
      more: from < last,
      missing: [],
    }),
    accounts: async (after) => ({ seal: last, accounts: accounts.slice(after) }),
    owners: async (after) => ({
      seal: last,
      owners: rows.filter(([owner]) => owner > after).map(([owner, row]) => ({ owner, ends: row })),
    }),
  };
}

it("names the seal that cannot be read, before its consequences", async () => {
  const accounts = Array.from({ length: 150 }, (_, n) => n);
  const moved = (before: string, after: string) =>
    accounts.map((n) => ({ account: `a${n}`, before, after }));
  const missing = { seal: 2, kind: "missing", detail: "the archive has no object" } as const;
  const { ok, unknown, discrepancies } = await verifyArchive(
    sourceOf(
      [
        { moved: moved("0", "90") },
        { unread: true, discrepancies: [missing] },
        { moved: moved("100", "80") },
      ],
      { balances: accounts.map(() => "80") },
    ),
  );
  const detail = "balances restart after seal 2, which could not be read";
  expect({ ok, unknown, discrepancies }).toEqual({
    ok: false,
    unknown: 0,
    discrepancies: [missing, { seal: 2, kind: "balance", detail }],
  });
});

it("lists causes first, of all parts", async () => {
  const unsigned = { seal: 2, kind: "unsigned", detail: "" } as const;
  const wrong = Array.from(
    { length: 150 },
    () => ({ seal: 1, kind: "balance", detail: "" }) as const,
  );
  const { discrepancies } = await verifyArchive(
    sourceOf([{ discrepancies: wrong }, { discrepancies: [unsigned] }]),
  );
  expect(discrepancies).toHaveLength(100);
  expect(discrepancies[0]).toEqual(unsigned);
});

describe("the chain of an owner's blocks", () => {
  const chain = [
    { owners: [block("aa", 1, null)] },
    { owners: [block("aa", 2, 1), block("bb", 2, null)] },
    { owners: [block("aa", 3, 2)] },
  ];
  const rows: [string, OwnerEnds][] = [
    ["aa", ends(1, 3)],
    ["bb", ends(2, 2)],
  ];
  const report = async (parts: readonly Part[], given = rows) => {
    const { discrepancies } = await verifyArchive(sourceOf(parts, { rows: given }));
    return discrepancies.map(({ seal, kind, detail }) => [seal, kind, detail]);
  };

  it("is right if each block names the one before, and the row both ends", async () => {
    expect(await report(chain)).toEqual([]);
  });

  it("is broken by a block that names another one, or none", async () => {
    const cut = (previous: number | null) =>
      report([...chain.slice(0, 2), { owners: [block("aa", 3, previous)] }]);
    for (const [previous, name] of [
      [null, "none"],
      [1, "seal 1"],
    ] as const)
      expect(await cut(previous)).toEqual([
        [3, "history", `the block of aa names ${name} as the one before; expected seal 2`],
      ]);
    expect(await report([{ owners: [block("aa", 1, 7)] }], [["aa", ends(1, 1)]])).toHaveLength(1);
  });

  it.each([
    ["is missing", [["bb", ends(2, 2)]]],
    [
      "begins too late",
      [
        ["aa", ends(2, 3)],
        ["bb", ends(2, 2)],
      ],
    ],
    [
      "ends too early",
      [
        ["aa", ends(1, 2)],
        ["bb", ends(2, 2)],
      ],
    ],
    [
      "hides its records",
      [
        ["aa", { ...ends(1, 3), quoteAt: 1 }],
        ["bb", ends(2, 2)],
      ],
    ],
    ["is of nobody", [...rows, ["cc", ends(1, 3)]]],
  ] as [string, [string, OwnerEnds][]][])("contradicts a row that %s", async (_title, given) => {
    expect(await report(chain, given)).toEqual([
      [3, "history", expect.stringContaining("sealed_owners")],
    ]);
  });

  it("may go through a seal that could not be read", async () => {
    const detail = "balances restart after seal 2, which could not be read";
    const parts = [chain[0] ?? {}, { unread: true } as const, chain[2] ?? {}];
    expect(await report(parts)).toEqual([[2, "balance", detail]]);
    expect(await report(parts, [["aa", ends(1, 1)]])).toHaveLength(2);
  });
});
