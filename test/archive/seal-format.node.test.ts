import * as fc from "fast-check";
import { expect, it } from "vitest";
import {
  type EncodedSeal,
  decodeSeal,
  encodeSeal,
  openBlock,
} from "../../src/archive/seal-format.ts";
import { concat, SealMalformed } from "../../src/archive/bytes.ts";
import { compress } from "../../src/archive/compress.ts";
import { encodeFooter, GENESIS, type OwnerBlock } from "../../src/archive/footer.ts";
import { readSeal, type SealBucket } from "../../src/archive/seal-store.ts";
import { encodeAmounts, encodeMarks } from "../../src/archive/summary.ts";
import { slices } from "./journal-model.ts";
import { rounds } from "../support/depth.ts";

it("returns exactly what was sealed", async () => {
  await fc.assert(
    fc.asyncProperty(slices, async (seal) => {
      const { bytes, sha256, footer } = await encodeSeal(seal);
      const decoded = await decodeSeal(bytes);
      expect(decoded.seal).toEqual(seal);
      expect(decoded.sha256).toBe(sha256);
      expect(decoded.footer).toEqual(footer);
    }),
    { numRuns: rounds(40, 150) },
  );
});

it("refuses every changed byte, or decodes the same content", async () => {
  await fc.assert(
    fc.asyncProperty(slices, fc.nat(), fc.integer({ min: 1, max: 255 }), async (seal, at, by) => {
      const { bytes, sha256 } = await encodeSeal(seal);
      const changed = bytes.slice();
      const position = at % bytes.length;
      changed[position] = (changed[position] ?? 0) ^ by;
      // DEFLATE has unused bits, so another byte may decompress to the same content. A change of
      // the footer gives another hash, which the next seal and the database would not accept.
      const outcome = await decodeSeal(changed).catch((error: unknown) => error);
      if (outcome instanceof SealMalformed) return;
      const decoded = outcome as Awaited<ReturnType<typeof decodeSeal>>;
      if (decoded.sha256 === sha256) expect(decoded.seal).toEqual(seal);
    }),
    { numRuns: rounds(80, 300) },
  );
});

it("refuses an object that ends early or goes on", async () => {
  await fc.assert(
    fc.asyncProperty(slices, fc.nat(), async (seal, at) => {
      const { bytes } = await encodeSeal(seal);
      const cut = bytes.slice(0, at % bytes.length);
      await expect(decodeSeal(cut)).rejects.toThrow(SealMalformed);
      const longer = new Uint8Array([...bytes, 0]);
      await expect(decodeSeal(longer)).rejects.toThrow(SealMalformed);
    }),
    { numRuns: rounds(30, 100) },
  );
});

const EMPTY = {
  epoch: 1,
  number: 1,
  previous: GENESIS,
  after: 0,
  upTo: 0,
  afterGroup: 0,
  upToGroup: 0,
  transfers: [],
  requests: [],
  quotes: [],
  matches: [],
};

it("seals a range without any row", async () => {
  const { bytes } = await encodeSeal(EMPTY);
  expect((await decodeSeal(bytes)).seal).toEqual(EMPTY);
});

it("opens the block of one owner without the others", async () => {
  await fc.assert(
    fc.asyncProperty(slices, async (seal) => {
      const { bytes, footer } = await encodeSeal(seal);
      for (const block of footer.blocks) {
        const own = await openBlock(bytes.slice(block.offset, block.offset + block.length), block);
        const ids = seal.transfers
          .filter(({ from, to }) => from.owner === block.owner || to.owner === block.owner)
          .map(({ transferId }) => transferId);
        expect(own.transfers.map(({ transferId }) => transferId)).toEqual(ids);
        expect(own.quotes).toEqual(seal.quotes.filter((row) => row.maker_id === block.owner));
      }
    }),
    { numRuns: rounds(15, 50) },
  );
});

it("refuses a block under the summary of another", async () => {
  const sealed = await sealOfTwo();
  const [first, second] = sealed.footer.blocks;
  if (first === undefined || second === undefined) throw new Error("two owners have blocks");
  const bytes = sealed.bytes.slice(first.offset, first.offset + first.length);
  await expect(openBlock(bytes, second)).rejects.toThrow(SealMalformed);
  const lies: readonly Partial<OwnerBlock>[] = [
    { largest: first.largest + 1n },
    { amounts: encodeAmounts(first.assets, [{ asset: "usdc", amount: 6n }]) },
    { requestMarks: encodeMarks(["ab".repeat(16)]) },
  ];
  for (const lie of lies)
    await expect(decodeSeal(await withFirstBlock(sealed, lie))).rejects.toThrow(
      "not what its footer states",
    );
});

it("unpacks no object beyond what any seal has", async () => {
  const bomb = await compress(new Uint8Array(40_000_000));
  const sizes = new DataView(new ArrayBuffer(8));
  sizes.setUint32(0, bomb.length);
  sizes.setUint32(4, 40_000_000);
  const { bytes } = await sealOfTwo();
  const object = concat([bytes.slice(0, 8), bomb, new Uint8Array(sizes.buffer)]);
  expect(object.length).toBeLessThan(100_000);
  await expect(decodeSeal(object)).rejects.toThrow("is too large");
  const body = () => Promise.reject(new Error("the object was read"));
  // Safe cast below: readSeal calls only `get`.
  const bucket = { get: () => Promise.resolve({ size: 40_000_000, arrayBuffer: body }) };
  const id = { epoch: 1, number: 1 };
  await expect(readSeal(bucket as unknown as SealBucket, id)).rejects.toThrow("is too large");
});

/** The same seal, whose footer states something else of its first block. */
async function withFirstBlock(
  { bytes, footer }: EncodedSeal,
  lie: Partial<OwnerBlock>,
): Promise<Uint8Array<ArrayBuffer>> {
  const blocks = footer.blocks.map((block, place) => (place === 0 ? { ...block, ...lie } : block));
  const last = footer.blocks.at(-1);
  const content = encodeFooter({ ...footer, blocks });
  const compressed = await compress(content);
  const sizes = new DataView(new ArrayBuffer(8));
  sizes.setUint32(0, compressed.length);
  sizes.setUint32(4, content.length);
  const end = (last?.offset ?? 0) + (last?.length ?? 0);
  return concat([bytes.slice(0, end), compressed, new Uint8Array(sizes.buffer)]);
}

it("gives another hash to another place in the chain", async () => {
  const hashes = await Promise.all(
    [
      EMPTY,
      { ...EMPTY, previous: "11".repeat(32) },
      { ...EMPTY, epoch: 2 },
      { ...EMPTY, number: 2 },
    ].map(async (seal) => (await encodeSeal(seal)).sha256),
  );
  expect(new Set(hashes).size).toBe(4);
});

function sealOfTwo(): Promise<EncodedSeal> {
  const account = { owner: "aa".repeat(16), kind: "available" } as const;
  const external = {
    owner: Buffer.from("external:polygon").toString("hex"),
    kind: "external",
  } as const;
  return encodeSeal({
    ...EMPTY,
    upTo: 1,
    transfers: [
      {
        transferId: 1,
        from: external,
        to: account,
        asset: "usdc",
        amount: 5n,
        reason: 1,
        step: 4,
        line: 0,
        ref: "01".repeat(16),
        at: 1_764_551_300_000,
        fromBalance: -5n,
        toBalance: 5n,
      },
    ],
  });
}
