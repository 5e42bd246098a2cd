/**
 * `records`: what a lost account takes along although it is not in the database. `list` copies the
 * recovery records of watchers and payers and the newest signed head of the audit log, and `put`
 * gives them to an account that was made anew, in which `restore` finds them. A record is no order:
 * addresses are derived again, and a payment id must follow from its record.
 */
import * as z from "zod";
import { type AuditBucket, AnchorReader, objectsIn, putListed } from "../audit/anchor.ts";
import { addressOf } from "../chain/addresses.ts";
import { near } from "../platform/near.ts";
import { problem } from "../platform/problem.ts";
import { limitOption, type OperatorContext, option, optional, parse, readJson } from "./context.ts";
import { Listed, sinceOption } from "./listed.ts";

const text = z.string().max(1_000);
const made = { userId: z.uuid(), createdAt: z.int() };
const RecordRow = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("address"),
    chain: text,
    record: z.object({ ...made, nonce: z.int().min(0) }),
  }),
  z.object({
    kind: z.literal("withdrawal"),
    chain: text,
    record: z.object({
      ...made,
      paymentId: text,
      withdrawalId: z.uuid(),
      jobId: z.uuid(),
      clientWithdrawalId: text,
      asset: text,
      amount: text,
      to: text,
    }),
  }),
  z.object({ kind: z.literal("audit"), key: text, metadata: z.record(z.string(), text) }),
]);
const MAX_PUT = 500;

/** Records made since `--since`. The cursor is a source and a key within it. */
export async function list(context: OperatorContext): Promise<Listed> {
  const { env, settings } = context;
  const page = { since: sinceOption(context) ?? 0, limit: limitOption(context) };
  const [source = "0", after = ""] = (optional(context, "cursor") ?? "").split(".");
  const at = Number(source);
  if (at === 0) return new Listed(await auditObjects(env.AUDIT, context), "1.");
  const chain = settings.CHAINS[(at - 1) >> 1]?.chain;
  if (chain === undefined) return new Listed([], null);
  const [kind, object] =
    at % 2 === 1
      ? (["address", near(env, env.CHAIN_WATCHER, chain)] as const)
      : (["withdrawal", near(env, env.PAYER, chain)] as const);
  const { records, next } = await object.records({ ...page, after });
  const rows = records.map((record) => ({ kind, chain, record }));
  return new Listed(rows, next === null ? `${at + 1}.` : `${at}.${next}`);
}

/** The newest head that counts, and all epochs. */
async function auditObjects(bucket: AuditBucket, { settings }: OperatorContext) {
  const found: z.infer<typeof RecordRow>[] = [];
  const head = await new AnchorReader(bucket, settings).newest();
  if (head !== undefined) {
    const { key, seq, hash, keyId, signature, at } = head;
    const metadata = { seq: String(seq), hash, keyId, signature, at: String(at) };
    found.push({ kind: "audit", key, metadata });
  }
  const epochs = { prefix: "audit/epoch/", startAfter: "audit/epoch/", limit: 1_000 };
  for await (const objects of objectsIn(bucket, epochs))
    for (const { key, customMetadata = {} } of objects)
      found.push({ kind: "audit", key, metadata: customMetadata });
  return found;
}

export async function put(context: OperatorContext): Promise<unknown> {
  const { env, settings } = context;
  const given = readJson(option(context, "records"), "--file");
  const rows = parse(z.array(RecordRow).max(MAX_PUT), given, "--file");
  const derived = addressOf(settings);
  const chainOf = <Row extends { readonly chain: string }>(of: readonly Row[]) =>
    Map.groupBy(of, ({ chain }) => chain);
  const addresses = chainOf(rows.filter((row) => row.kind === "address"));
  const withdrawals = chainOf(rows.filter((row) => row.kind === "withdrawal"));
  for (const chain of [...addresses.keys(), ...withdrawals.keys()])
    if (!settings.CHAINS.some((one) => one.chain === chain))
      throw problem("chain_unknown", `There is no chain ${chain}.`);
  for (const [chain, of] of addresses)
    await near(env, env.CHAIN_WATCHER, chain).putRecords(
      of.flatMap(({ record }) => {
        const { address, salt } = derived({ ...record, chain }) ?? {};
        if (address === undefined || salt === undefined) return [];
        return { ...record, address: address.slice(2).toLowerCase(), salt: salt.slice(2) };
      }),
    );
  for (const [chain, of] of withdrawals)
    await near(env, env.PAYER, chain).putRecords(of.map(({ record }) => record));
  for (const row of rows)
    if (row.kind === "audit")
      await putListed(env.AUDIT, row.key, {
        json: JSON.stringify(row.metadata),
        metadata: row.metadata,
      });
  return { records: rows.length };
}
