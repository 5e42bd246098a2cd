import * as fc from "fast-check";
import { expect, it } from "vitest";
import { SealMalformed, writeTable } from "../../src/archive/column-text.ts";
import { compress } from "../../src/archive/compress.ts";
import {
  encodeFooter,
  GENESIS,
  type FooterBlock,
  readFooter,
  SealDiffers,
  sha256,
} from "../../src/archive/footer.ts";
import { TRANSFERS } from "../../src/archive/sealed-columns.ts";
import { decodeSeal, encodeSeal, openBlock } from "../../src/archive/seal-format.ts";
import { readSeal, type SealBucket } from "../../src/archive/seal-store.ts";
import { slices } from "./journal-model.ts";
import { rounds } from "../support/depth.ts";

it("returns exactly what was sealed", () => {
  fc.assert(
    fc.property(slices, (seal) => {
      const { bytes, sha256: hash, footer } = encodeSeal(seal);
      expect(decodeSeal(bytes, hash)).toEqual({ seal, footer });
    }),
    { numRuns: rounds(40, 150) },
  );
});

it("refuses every changed byte, or decodes the same content", () => {
  fc.assert(
    fc.property(slices, fc.nat(), fc.integer({ min: 1, max: 255 }), (seal, at, by) => {
      const { bytes, sha256: hash } = encodeSeal(seal);
      const position = at % bytes.length;
      bytes[position] = (bytes[position] ?? 0) ^ by;
      // DEFLATE has unused bits, so another byte may decompress to the same content.
      try {
        expect(decodeSeal(bytes, hash).seal).toEqual(seal);
      } catch (error) {
        if (!(error instanceof SealMalformed)) throw error;
      }
    }),
    { numRuns: rounds(80, 300) },
  );
});

it("refuses an object that ends early or goes on", () => {
  fc.assert(
    fc.property(slices, fc.nat(), (seal, at) => {
      const { bytes, sha256: hash } = encodeSeal(seal);
      expect(() => decodeSeal(bytes.slice(0, at % bytes.length), hash)).toThrow(SealMalformed);
      expect(() => decodeSeal(new Uint8Array([...bytes, 0]), hash)).toThrow(SealMalformed);
    }),
    { numRuns: rounds(30, 100) },
  );
});

const HEAD = {
  epoch: 1,
  number: 1,
  previous: GENESIS,
  after: 0,
  upTo: 9,
  afterGroup: 0,
  upToGroup: 0,
};
const EMPTY = { ...HEAD, transfers: [], requests: [], quotes: [], matches: [] };

it("seals a range without any row", () => {
  const { bytes, sha256: hash } = encodeSeal(EMPTY);
  expect(decodeSeal(bytes, hash).seal).toEqual(EMPTY);
});

it("opens a block without the others, by its own hash only", () => {
  fc.assert(
    fc.property(slices, (seal) => {
      const { bytes, footer } = encodeSeal(seal);
      for (const block of footer.blocks.filter(({ kind }) => kind === "transfers")) {
        const { owner, offset, length } = block;
        const stored = bytes.slice(offset, offset + length);
        const own = seal.transfers.filter((row) => [row.from_owner, row.to_owner].includes(owner));
        expect(openBlock("transfers", stored, block)).toEqual(own);
        const other = { ...block, sha256: GENESIS };
        expect(() => openBlock("transfers", stored, other)).toThrow(SealMalformed);
      }
    }),
    { numRuns: rounds(15, 50) },
  );
});

it("gives another hash to another place in the chain, and to nothing else", () => {
  const hashOf = (change: object, level?: (content: string) => Uint8Array<ArrayBuffer>) =>
    encodeSeal({ ...EMPTY, ...change }, new Map(), level).sha256;
  const changes = [{}, { previous: "11".repeat(32) }, { epoch: 2 }, { number: 2 }];
  expect(new Set(changes.map((change) => hashOf(change))).size).toBe(4);
  expect(hashOf({}, (content) => new Uint8Array([...compress(content), 0]))).toBe(hashOf({}));
});

const OWNER = "aa".repeat(16);
const ROW = {
  transfer_id: 1,
  from_owner: Buffer.from("external:polygon").toString("hex"),
  from_kind: "external",
  to_owner: OWNER,
  to_kind: "available",
  asset: "usdc",
  amount: 5n,
  reason: 1,
  step: 4,
  line: 0,
  ref: "01".repeat(16),
  match_id: null,
  at: 1_764_551_300_000,
  from_balance: -5n,
  to_balance: 5n,
};

/** An object with one block of this content, and the hash that somebody has stored for it. */
function objectWith(json: string, stated: Partial<FooterBlock> = {}, lengths?: string) {
  const stored = compress(json);
  const { footer } = encodeSeal({ ...EMPTY, transfers: [ROW] });
  const [sample] = footer.blocks.filter(({ owner }) => owner === OWNER);
  if (sample === undefined) throw new Error("the owner has a block");
  const own = { contentLength: Buffer.byteLength(json), sha256: sha256(json) };
  const block = { ...sample, ...own, offset: 0, length: stored.length, ...stated };
  const { content, sha256: hash } = encodeFooter({ head: HEAD, blocks: [block] });
  const whole = lengths === undefined ? content : content.replace(/[^\n]*$/, lengths);
  const end = compress(whole);
  const sizes = Buffer.alloc(8);
  sizes.writeUInt32BE(end.length, 0);
  sizes.writeUInt32BE(Buffer.byteLength(whole), 4);
  return { bytes: Buffer.concat([stored, end, sizes]), hash };
}

const rows = (...changes: object[]): string =>
  writeTable(
    TRANSFERS.columns,
    changes.map((change) => ({ ...ROW, ...change })),
  );
const columns = (change: object) => JSON.stringify({ ...JSON.parse(rows({})), ...change });

it.each([
  ["cut off", rows({}).slice(0, -2), {}, "is not JSON"],
  ["no table", "null", {}, "is no table"],
  ["a column that is no list", columns({ asset: "usdc" }), {}, "asset is no list"],
  ["a column that is shorter", columns({ asset: [] }), {}, "another number of values"],
  ["without a column", columns({ amount: undefined }), {}, "amount has another type"],
  ["an amount as a number", columns({ amount: [5] }), {}, "amount has another type"],
  ["an amount that is no integer", columns({ amount: ["5.0"] }), {}, "amount has another type"],
  ["an endless amount", columns({ amount: ["9".repeat(79)] }), {}, "amount has another type"],
  ["a number as text", columns({ at: ["1"] }), {}, "at has another type"],
  ["a number beyond the exact ones", columns({ at: [2 ** 53] }), {}, "at has another type"],
  ["an id in capitals", columns({ ref: ["AB"] }), {}, "ref has another type"],
  ["a nested list", columns({ asset: [["usdc"]] }), {}, "asset has another type"],
  ["ids out of order", rows({ transfer_id: 2 }, { transfer_id: 1 }), {}, "out of order"],
  ["an id twice", rows({}, {}), {}, "out of order"],
  ["a row of another owner", rows({ to_owner: "bb".repeat(16) }), {}, "not the owner's"],
  ["a transfer beyond the range", rows({ transfer_id: 10 }), {}, "outside the range"],
  ["a shorter length", rows({}), { contentLength: 9 }, "has another length"],
  ["a longer length", rows({}), { contentLength: 999 }, "has another length"],
  ["a huge length", rows({}), { contentLength: 40_000_000 }, "is too large"],
  ["a block that ends elsewhere", rows({}), { length: 3 }, "blocks do not end"],
] as const)(
  "refuses a block with %s, although its hash is right",
  (_name, json, stated, reason) => {
    const { bytes, hash } = objectWith(json, stated);
    const decode = () => decodeSeal(bytes, hash);
    expect(decode).toThrow(SealMalformed);
    expect(decode).toThrow(reason);
  },
);

it("reads a column that an old seal lacks as null, and ignores an unknown one", () => {
  const old = columns({ match_id: undefined, color: ["red"] });
  const { bytes, hash } = objectWith(old);
  expect(decodeSeal(bytes, hash).seal.transfers).toEqual([ROW]);
});

it("parses nothing of an object with another hash", () => {
  const { bytes } = objectWith("[".repeat(1_000));
  expect(() => decodeSeal(bytes, GENESIS)).toThrow(SealDiffers);
});

it("refuses a footer that is not whole, although its hash is right", () => {
  const { content } = encodeFooter({ head: HEAD, blocks: [] });
  const read = (footer: string) =>
    readFooter(footer, sha256(footer.split("\n").slice(0, 2).join("\n")));
  expect(read(content)).toEqual({ head: HEAD, blocks: [] });
  const hostile: readonly string[] = [
    content.replace('"version":[1]', '"version":[2]'),
    content.replace('"epoch":[1]', '"epoch":[-0.5]'),
    "{}\n\n",
    content.replace(/\n.*/s, ""),
    `${content}\n`,
  ];
  for (const one of hostile) expect(() => read(one)).toThrow(SealMalformed);
  const many = objectWith(rows({}), {}, `[${" ".repeat(100)}1]`);
  expect(() => decodeSeal(many.bytes, many.hash)).toThrow("has too many lengths");
  for (const lengths of ["[", "[1,2]", `[${"[".repeat(1_000)}`, "[-1]", "1"]) {
    const { bytes: object, hash } = objectWith(rows({}), {}, lengths);
    expect(() => decodeSeal(object, hash)).toThrow(SealMalformed);
  }
});

it("unpacks no object beyond what any seal has", async () => {
  const bomb = compress("0".repeat(40_000_000));
  const sizes = new DataView(new ArrayBuffer(8));
  sizes.setUint32(0, bomb.length);
  for (const claimed of [40_000_000, 1_000]) {
    sizes.setUint32(4, claimed);
    const object = Buffer.concat([bomb, new Uint8Array(sizes.buffer)]);
    expect(object.length).toBeLessThan(100_000);
    expect(() => decodeSeal(object, GENESIS)).toThrow(SealMalformed);
  }
  const body = () => Promise.reject(new Error("the object was read"));
  // Safe cast below: readSeal calls only `get`.
  const bucket = { get: () => Promise.resolve({ size: 40_000_000, arrayBuffer: body }) };
  const id = { epoch: 1, number: 1, sha256: GENESIS };
  await expect(readSeal(bucket as unknown as SealBucket, id)).rejects.toThrow("is too large");
});
