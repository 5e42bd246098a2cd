/** The webhooks of users: where events of their account are delivered. */
import { commitAudited, recordBy, recordOf } from "../../audit/audit.ts";
import { commitOwnChange } from "../../auth/own-change.ts";
import type { WEBHOOK_ENDS } from "../../auth/webhook-secrets.ts";
import { newWebhookSecret, openWebhook, rotated, sealWebhook } from "../../auth/webhook-secrets.ts";
import type { Sealed } from "../../auth/secret-box.ts";
import type { Actor, CheckedActor, SessionActor } from "../../platform/actor.ts";
import type { Config } from "../../platform/config.ts";
import { invalidRequest, type Problem, problem } from "../../platform/problem.ts";
import { all, expr, first, readUuid, sql, uuid } from "../../platform/sql.ts";
import { now, toWireTime, toWireTimeOrNull } from "../../platform/time.ts";
import { uuidv7 } from "../../platform/uuid.ts";
import { accountStream } from "../../streams/event-log.ts";
import { isAllowed } from "./webhook-url.ts";

export const MAX_WEBHOOKS = 2;
export type WebhookEnd = (typeof WEBHOOK_ENDS)[number];

export type WebhookEndpoint = Sealed & {
  readonly endpointId: string;
  readonly userId: string;
  readonly url: string;
  readonly types: string;
  readonly afterSeq: number;
  readonly createdAt: number;
  readonly disabledAt: number | null;
  readonly disabledReason: WebhookEnd | null;
  readonly disabledSeq: number | null;
  readonly frozen: number;
};
type By<Of extends SessionActor = SessionActor> = {
  readonly actor: Of;
  readonly ip: string | undefined;
};

type NewEndpoint = By<CheckedActor> & {
  readonly url: string;
  readonly types: readonly string[];
  readonly prepare: (endpointId: string) => Promise<void>;
};

const COLUMNS = sql`SELECT hex(w.endpoint_id) AS endpointId, hex(w.user_id) AS userId, w.url,
    w.types, w.secrets_sealed AS sealed, w.master_key_id AS masterKeyId, w.after_seq AS afterSeq,
    w.created_at AS createdAt, w.disabled_at AS disabledAt, w.disabled_reason AS disabledReason,
    w.disabled_seq AS disabledSeq, u.frozen_at IS NOT NULL AS frozen
  FROM webhook_endpoints w JOIN users u ON u.user_id = w.user_id`;

const read = (row: WebhookEndpoint): WebhookEndpoint => ({
  ...row,
  endpointId: readUuid(row.endpointId),
  userId: readUuid(row.userId),
});

export async function readEndpoint(
  db: D1Database,
  id: string,
): Promise<WebhookEndpoint | undefined> {
  const row = await first<WebhookEndpoint>(db, sql`${COLUMNS} WHERE w.endpoint_id = ${uuid(id)}`);
  return row && read(row);
}

/** Throws `webhook_unknown` for another user's as for one that does not exist. */
export async function ownEndpoint(
  db: D1Database,
  userId: string,
  id: string,
): Promise<WebhookEndpoint> {
  const endpoint = await readEndpoint(db, id);
  if (endpoint?.userId !== userId) throw unknown();
  return endpoint;
}

/** A key sees the host of a URL only, because the path of one is often a secret. */
export async function listEndpoints(db: D1Database, { userId, credential }: Actor) {
  const rows = await all<WebhookEndpoint>(
    db,
    sql`${COLUMNS} WHERE w.user_id = ${uuid(userId)} ORDER BY w.endpoint_id`,
  );
  return rows.map((row) => {
    const view = endpointView(read(row));
    return credential.kind === "session" ? view : { ...view, url: new URL(view.url).origin };
  });
}

function endpointView(row: WebhookEndpoint) {
  return {
    endpoint_id: row.endpointId,
    url: row.url,
    types: row.types.split(","),
    created_at: toWireTime(row.createdAt),
    disabled_at: toWireTimeOrNull(row.disabledAt),
    disabled_reason: row.disabledReason,
    disabled_seq: row.disabledSeq,
  };
}

/**
 * For the actor that `stepUp` returned. `prepare` is called with the id before the commit, so that
 * the endpoint's object looks for its row even if this call ends there. Throws `webhook_limit`.
 */
export async function createEndpoint(
  db: D1Database,
  settings: Config,
  { actor, ip, url, types, prepare }: NewEndpoint,
) {
  if (!isAllowed(settings, url))
    throw invalidRequest([{ path: "body.url", message: "must be a public https URL" }]);
  const { userId } = actor;
  const terms = { endpointId: uuidv7(), userId, url, types: types.join(",") };
  const secret = newWebhookSecret();
  const box = await sealWebhook(settings.MASTER_KEYS, [secret], terms);
  const id = uuid(terms.endpointId);
  await prepare(terms.endpointId);
  const added = await commitOwnChange(db, actor, {
    record: recordOf(actor, "webhook_created", { ip, subjectId: terms.endpointId }),
    when: () => expr`(SELECT count(*) FROM webhook_endpoints
      WHERE user_id = ${uuid(userId)}) < ${MAX_WEBHOOKS}`,
    statements: ({ at, applied }) => [
      // The notice of this change follows in the batch, so it is the first event.
      sql`INSERT INTO webhook_endpoints (endpoint_id, user_id, url, types, secrets_sealed,
          master_key_id, after_seq, created_at)
        SELECT ${id}, ${uuid(userId)}, ${url}, ${terms.types}, ${box.sealed}, ${box.masterKeyId},
          coalesce((SELECT last_seq FROM streams WHERE name = ${accountStream(userId)}),
            (SELECT max(last_seq) FROM removed_streams), 0), ${at}
        WHERE ${applied}`,
    ],
  });
  if (!added)
    throw problem(
      "webhook_limit",
      `You have reached the limit of ${MAX_WEBHOOKS} webhooks. Remove one first.`,
    );
  const endpoint = await ownEndpoint(db, userId, terms.endpointId);
  return { ...endpointView(endpoint), secret: secret.secret };
}

/** Throws `webhook_unknown`. */
export async function removeEndpoint(
  db: D1Database,
  { actor, ip, endpointId }: By & { readonly endpointId: string },
) {
  const endpoint = await ownEndpoint(db, actor.userId, endpointId);
  const row = sql`FROM webhook_endpoints WHERE endpoint_id = ${uuid(endpointId)}`;
  const removed = await commitOwnChange(db, actor, {
    record: recordOf(actor, "webhook_removed", { ip, subjectId: endpointId }),
    when: () => expr`EXISTS (SELECT 1 ${row})`,
    statements: ({ applied }) => [sql`DELETE ${row} AND ${applied}`],
  });
  if (!removed) throw unknown();
  return { endpoint, view: endpointView(endpoint) };
}

/** For the actor of `stepUp`. The secret before signs for another day. Throws `webhook_unknown`. */
export async function rotateSecret(
  db: D1Database,
  settings: Config,
  { actor, ip, endpointId }: By<CheckedActor> & { readonly endpointId: string },
) {
  const endpoint = await ownEndpoint(db, actor.userId, endpointId);
  const secrets = rotated(await openWebhook(settings.MASTER_KEYS, endpoint, endpoint), now());
  const box = await sealWebhook(settings.MASTER_KEYS, secrets, endpoint);
  const row = expr`endpoint_id = ${uuid(endpointId)} AND secrets_sealed = ${endpoint.sealed}`;
  const changed = await commitOwnChange(db, actor, {
    record: recordOf(actor, "webhook_secret_rotated", { ip, subjectId: endpointId }),
    when: () => expr`EXISTS (SELECT 1 FROM webhook_endpoints WHERE ${row})`,
    statements: ({ applied }) => [
      sql`UPDATE webhook_endpoints
        SET secrets_sealed = ${box.sealed}, master_key_id = ${box.masterKeyId}
        WHERE ${row} AND ${applied}`,
    ],
  });
  if (!changed) throw unknown();
  return { ...endpointView(endpoint), secret: secrets[0]?.secret ?? "" };
}

/** Ends an endpoint with a notice. `seq`: the first event that it did not receive. */
export async function disableEndpoint(
  db: D1Database,
  { endpointId, userId }: WebhookEndpoint,
  { reason, seq }: { reason: WebhookEnd; seq: number },
): Promise<void> {
  const enabled = sql`endpoint_id = ${uuid(endpointId)} AND disabled_at IS NULL`;
  await commitAudited(db, {
    record: recordBy("service", "webhook_disabled", { userId, subjectId: endpointId }),
    when: () => sql`EXISTS (SELECT 1 FROM webhook_endpoints WHERE ${enabled})`,
    statements: ({ at }, written) => [
      sql`UPDATE webhook_endpoints
        SET disabled_at = ${at}, disabled_reason = ${reason}, disabled_seq = ${seq}
        WHERE ${enabled} AND ${written}`,
    ],
  });
}

/** Secrets that sign at an instant, newest first. */
export async function secretsAt(
  settings: Config,
  endpoint: WebhookEndpoint,
  at: number,
): Promise<string[]> {
  const secrets = await openWebhook(settings.MASTER_KEYS, endpoint, endpoint);
  return secrets.filter(({ endsAt }) => endsAt === null || endsAt > at).map(({ secret }) => secret);
}

function unknown(): Problem {
  return problem("webhook_unknown", "You have no such webhook.");
}
