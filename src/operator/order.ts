/**
 * Orders: operator commands that their operator has signed. The secret OPERATORS names the public
 * keys, so a stolen login of the deployment's account alone commands nothing.
 *
 * An order is carried out once. Its result is kept for a day, sealed, and a repeat returns it.
 */
import * as z from "zod";
import { type AuditRecord, auditRow, detailed, recordBy } from "../audit/audit.ts";
import { openSecret, sealSecret } from "../auth/secret-box.ts";
import { commitOrThrow, newGroup, NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { blob, expr, first, type Sql, sql, uuid } from "../platform/sql.ts";
import { rowsOf, trimUntilDone } from "../platform/trim.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { parse, readJson } from "./context.ts";
import { OperatorRejection } from "./operator-rejection.ts";
import { orderText } from "./order-text.ts";

export type Order = {
  readonly orderId: string;
  readonly operator: string;
  readonly command: readonly string[];
  readonly options: Readonly<Record<string, unknown>>;
  readonly signedAtMs: number;
  /** Of the bytes that carry the command and its options. */
  readonly sha256: string;
  readonly signature: string;
};

/** An order is refused if D1's clock is further from its signature, so none waits to be used. */
const MAX_AGE_MS = 60_000;
const RESULT_KEPT_MS = 86_400_000;
const utf8 = new TextEncoder();

/** Reads a signed order and verifies its signature. It may be old or a repeat. */
export async function readOrder(body: unknown, settings: Config): Promise<Order> {
  const { operator } = Object(body) as { operator?: unknown };
  if (typeof operator !== "string" || !Object.hasOwn(settings.OPERATORS, operator))
    throw new OperatorRejection(
      "operator_unknown",
      `The secret OPERATORS has no key of ${typeof operator === "string" ? operator : "nobody"}. ` +
        "`key create` makes one. Deploy its public half.",
    );
  const { order_id, signed_at_ms, order, signature } = parse(SignedOrder, body);
  const sha256 = Buffer.from(await crypto.subtle.digest("SHA-256", utf8.encode(order)));
  const text = orderText({
    deployment: settings.DEPLOYMENT,
    orderId: order_id,
    signedAtMs: signed_at_ms,
    sha256: sha256.toString("hex"),
  });
  const raw = Buffer.from(settings.OPERATORS[operator] ?? "", "base64url");
  const key = await crypto.subtle.importKey("raw", raw, { name: "Ed25519" }, false, ["verify"]);
  const bytes = Buffer.from(signature, "base64url");
  // The runtime throws at another length.
  if (
    bytes.length !== 64 ||
    !(await crypto.subtle.verify("Ed25519", key, bytes, utf8.encode(text)))
  )
    throw new OperatorRejection(
      "order_signature_invalid",
      `The signature is not that of ${operator} over this order for ${settings.DEPLOYMENT}.`,
    );
  const { command, options } = parse(Content, readJson(order, "order"), "order");
  return {
    orderId: order_id,
    operator,
    command,
    options,
    signedAtMs: signed_at_ms,
    sha256: sha256.toString("hex"),
    signature,
  };
}

const SignedOrder = z.object({
  order_id: z.string().regex(/^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/, "must be a UUID"),
  signed_at_ms: z.int("must be an integer: milliseconds since 1970"),
  order: z.string("must be a text: JSON with command and options"),
  signature: z.string("must be base64url"),
});
const Content = z.object({
  command: z.array(z.string(), "must be a list of words"),
  options: z.record(z.string(), z.unknown()).default({}),
});

/**
 * Claims the order, so that no other call carries it out. One that `changes` something is recorded
 * with its signature. Returns the answer of the first call if there was one.
 */
export async function claimOrder(
  db: D1Database,
  settings: Config,
  order: Order,
  changes: boolean,
): Promise<{ answer: string } | "claimed"> {
  const group = newGroup();
  const auditEventId = uuidv7();
  const inserted = await commitOrThrow(db, group, [
    sql`INSERT INTO operator_orders (order_id, operator, sha256, audit_event_id, at)
      SELECT ${uuid(order.orderId)}, ${order.operator}, ${blob(order.sha256)},
        ${uuid(auditEventId)}, ${group.at}
      WHERE abs(${group.at} - ${order.signedAtMs}) <= ${MAX_AGE_MS}
        AND NOT EXISTS (SELECT 1 FROM operator_orders WHERE order_id = ${uuid(order.orderId)})
      RETURNING 1 AS claimed`,
    auditRow(
      recordOf(settings, order),
      group.at,
      expr`${changes ? 1 : 0} AND EXISTS (SELECT 1 FROM operator_orders
        WHERE order_id = ${uuid(order.orderId)} AND audit_event_id = ${uuid(auditEventId)})`,
      auditEventId,
    ),
    listChange(settings, group.at),
  ]);
  if ((inserted?.[0]?.length ?? 0) > 0) return "claimed";
  return { answer: await earlierAnswer(db, settings, order) };
}

function recordOf(
  settings: Config,
  { operator, command, options, orderId, ...signed }: Order,
): AuditRecord {
  const about = { subjectId: command.join(" ") };
  // What verifies the signature later, together with the public key of that time.
  return detailed(settings, recordBy(`operator:${operator}`, "operator_order", about), {
    order_id: orderId,
    signed_at_ms: signed.signedAtMs,
    sha256: signed.sha256,
    signature: signed.signature,
    line: lineOf(command, options),
  });
}

/** Longer than every value but the markets of an import. */
const LONGEST_VALUE = 2_000;

/** The order as it was typed, for `audit list`. A password is stored nowhere. */
function lineOf(command: Order["command"], options: Order["options"]): string {
  const flags = Object.entries(options)
    .filter(([name]) => name !== "password")
    .map(([name, value]) => `--${name} ${String(value).slice(0, LONGEST_VALUE)}`);
  return [...command, ...flags].join(" ");
}

/** An audit row whenever the deployed list of operators differs from the one recorded last. */
function listChange(settings: Config, at: Sql): Sql {
  const list = JSON.stringify(
    Object.entries(settings.OPERATORS).toSorted(([one], [other]) => (one < other ? -1 : 1)),
  );
  return auditRow(
    recordBy("operator:deployment", "operators_changed", { subjectId: list }),
    at,
    expr`(SELECT subject_id FROM audit_events WHERE kind = 'operators_changed'
      ORDER BY audit_seq DESC LIMIT 1) IS NOT ${list}`,
  );
}

async function earlierAnswer(db: D1Database, settings: Config, order: Order): Promise<string> {
  const row = await first<{
    sha256: string;
    operator: string | null;
    answer: string | null;
    master_key_id: string | null;
    now: number;
  }>(
    db,
    sql`SELECT lower(hex(o.sha256)) AS sha256, o.operator, o.answer, o.master_key_id,
        ${NOW} AS now
      FROM (SELECT 1) LEFT JOIN operator_orders o ON o.order_id = ${uuid(order.orderId)}`,
  );
  if (row === undefined || row.operator === null)
    throw new OperatorRejection(
      "order_stale",
      `The order was signed at ${order.signedAtMs}, more than ${MAX_AGE_MS / 1_000} s from the ` +
        `database's time ${row?.now ?? 0}. Correct the clock of this machine and send it again.`,
    );
  if (row.operator !== order.operator || row.sha256 !== order.sha256)
    throw new OperatorRejection("order_id_used", "Another order has this order_id.");
  if (row.answer === null || row.master_key_id === null)
    throw new OperatorRejection(
      "order_unfinished",
      "This order was begun before, and its result is not known. See what it did with " +
        "`audit list`, then send a new order.",
    );
  const box = { sealed: row.answer, masterKeyId: row.master_key_id };
  return openSecret(settings.MASTER_KEYS, box, boundTo(order.orderId));
}

/** Keeps the answer for a repeat. It may contain a secret, such as that of a new API key. */
export async function keepAnswer(
  db: D1Database,
  settings: Config,
  order: Order,
  answer: string,
): Promise<void> {
  const box = await sealSecret(settings.MASTER_KEYS, answer, boundTo(order.orderId));
  await first(
    db,
    sql`UPDATE operator_orders SET answer = ${box.sealed}, master_key_id = ${box.masterKeyId}
      WHERE order_id = ${uuid(order.orderId)}`,
  );
}

function boundTo(orderId: string): string {
  return `operator-order:${orderId}`;
}

/** Deletes orders that are too old to be sent again. Their audit rows stay. */
export function trimOrders(db: D1Database): Promise<number> {
  const old = sql`WHERE at < ${NOW} - ${RESULT_KEPT_MS}`;
  return trimUntilDone(db, rowsOf("operator_orders", "order_id", old));
}
