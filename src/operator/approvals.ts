/**
 * Orders that two operators must agree on (OPERATOR_APPROVALS=2). The first one's order is kept as
 * a proposal. Another one approves it within a day by signing its hash, and then it runs. Orders
 * that stop something never wait: freezing, pausing, revoking and rejecting.
 */
import { commitAudited, detailed, recordBy, uuidTextOf } from "../audit/audit.ts";
import { commandText } from "../platform/command-text.ts";
import { commitOrThrow, newGroup, NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { openSecret, sealSecret } from "../auth/secret-box.ts";
import { all, expr, type RowOf, select, type Sql, sql, typed, uuid } from "../platform/sql.ts";
import { rowsOf, trimUntilDone } from "../platform/trim.ts";
import { instantOf, uuidv7 } from "../platform/uuid.ts";
import { actorOf, idOption, option, type OperatorContext } from "./context.ts";
import { OperatorRejection } from "./operator-rejection.ts";

const LIFE_MS = 86_400_000;
const KEPT_MS = 30 * LIFE_MS;

/** What the approver signs the hash of. */
type Content = {
  proposal_id: string;
  operator: string;
  command: readonly string[];
  options: Readonly<Record<string, unknown>>;
};

const PROPOSAL = {
  proposalId: uuidTextOf("proposal_id"),
  operator: typed<string>("operator"),
  content: typed<string>("content"),
  status: typed<string>("status"),
  decidedBy: typed<string | null>("decided_by"),
  sealed: typed<string>("seal"),
  masterKeyId: typed<string>("master_key_id"),
  at: typed<number>("at"),
};
type Proposal = RowOf<typeof PROPOSAL>;

/** The proposals that `rest`, the clauses after FROM, selects. */
function readProposals(db: D1Database, rest: Sql): Promise<Proposal[]> {
  return all(db, sql`SELECT ${select(PROPOSAL)} FROM operator_proposals ${rest}`);
}

/** Keeps the order as a proposal. Throws `approvals_impossible` if nobody else could approve it. */
export async function propose(
  { env, settings, operator }: OperatorContext,
  { command, options }: { command: readonly string[]; options: OperatorContext["options"] },
): Promise<unknown> {
  if (Object.keys(settings.OPERATORS).length < 2)
    throw new OperatorRejection(
      "approvals_impossible",
      "This needs two operators, and OPERATORS has one. Deploy a second key first.",
    );
  const proposalId = uuidv7();
  // The approver's tool makes the password, so that it is in no table.
  const { password: _, ...kept } = options;
  const content: Content = { proposal_id: proposalId, operator, command, options: kept };
  const text = JSON.stringify(content);
  const { sealed, masterKeyId } = await sealSecret(settings.MASTER_KEYS, "", boundTo(text));
  const group = newGroup();
  await commitOrThrow(env.DB, group, [
    sql`INSERT INTO operator_proposals
        (proposal_id, operator, content, status, seal, master_key_id, at)
      VALUES (${uuid(proposalId)}, ${operator}, ${text}, 'open', ${sealed}, ${masterKeyId},
        ${group.at})`,
  ]);
  return {
    proposal_id: proposalId,
    status: "open",
    next: `Another operator runs: ${commandText(settings, "operator", "approve", "--id", proposalId)}`,
  };
}

/** Lists proposals, newest first. `content` is the text whose SHA-256 an approval signs. */
export async function listProposals({ env }: OperatorContext): Promise<unknown> {
  const rows = await readProposals(env.DB, sql`ORDER BY at DESC LIMIT 100`);
  return rows.map(({ proposalId, operator, content, status, decidedBy, at }) => ({
    proposal_id: proposalId,
    operator,
    status,
    decided_by: decidedBy,
    expires_at: new Date(at + LIFE_MS).toISOString(),
    content,
  }));
}

/** The open proposals, in words, the newest first. */
export async function openOrders(db: D1Database) {
  const rows = await readProposals(
    db,
    sql`WHERE status = 'open' AND at > ${NOW} - ${LIFE_MS} ORDER BY at DESC LIMIT 100`,
  );
  return rows.map(({ proposalId: id, operator, content, at }) => {
    const { command, options } = JSON.parse(content) as Content;
    const flags = Object.entries(options).map(([name, value]) => `--${name} ${String(value)}`);
    return { id, operator, at, text: [...command, ...flags].join(" ") };
  });
}

/**
 * Approves a proposal and returns it to be carried out. `sha256` is the hash of its content, so
 * that the approver has signed what runs. Throws `proposal_not_open`, `approver_is_proposer`.
 */
export async function approve(context: OperatorContext): Promise<Content> {
  const { env, settings, operator } = context;
  const proposalId = idOption(context, "id");
  const [proposal] = await readProposals(env.DB, sql`WHERE proposal_id = ${uuid(proposalId)}`);
  if (proposal === undefined) throw notOpen("There is no such proposal.");
  if (proposal.operator === operator)
    throw new OperatorRejection("approver_is_proposer", "Another operator must approve it.");
  if (!Object.hasOwn(settings.OPERATORS, proposal.operator))
    throw notOpen(`${proposal.operator} is no operator any more, so their proposals are void.`);
  if (!(await isOurs(settings, proposal)))
    throw notOpen("Its row was altered, or was not written by this service.");
  if (instantOf(proposalId) <= Date.now() - LIFE_MS) throw notOpen("It is older than a day.");
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(proposal.content));
  if (option(context, "sha256") !== Buffer.from(digest).toString("hex"))
    throw notOpen("The signed hash is not that of this proposal.");
  if (!(await decide(context, { proposalId, status: "approved" })))
    throw notOpen("It was decided before, or is older than a day.");
  return JSON.parse(proposal.content) as Content;
}

/**
 * A seal of nothing, bound to the content, which names the proposal and its operator. A writer to
 * the database with one operator's key cannot invent the other operator's proposal. The id contains
 * the instant at which it was proposed, so they cannot open an old one again either.
 */
function boundTo(content: string): string {
  return `operator-proposal:${content}`;
}

/** Whether this service wrote the content for this proposal of this operator. */
async function isOurs(settings: Config, row: Proposal): Promise<boolean> {
  try {
    await openSecret(settings.MASTER_KEYS, row, boundTo(row.content));
  } catch {
    return false;
  }
  const { proposal_id, operator } = JSON.parse(row.content) as Content;
  return proposal_id === row.proposalId && operator === row.operator;
}

/** Ends a proposal. Its proposer may do it too. */
export async function reject(context: OperatorContext): Promise<unknown> {
  const proposalId = idOption(context, "id");
  if (!(await decide(context, { proposalId, status: "rejected" })))
    throw notOpen("It was decided before, is older than a day, or does not exist.");
  return { proposal_id: proposalId, status: "rejected" };
}

/**
 * Whether this call decided. Of two at once, one does. The decision is an audit event. A proposal
 * that has one is not open, even if SQL has set its status back.
 */
function decide(
  context: OperatorContext,
  { proposalId, status }: { proposalId: string; status: "approved" | "rejected" },
): Promise<boolean> {
  const { env, settings, operator } = context;
  const kind = "proposal_decided";
  const record = recordBy(actorOf(context), kind, { subjectId: proposalId });
  return commitAudited(env.DB, {
    record: detailed(settings, record, { status }),
    when: ({ at }) => sql`EXISTS (SELECT 1 FROM operator_proposals
        WHERE proposal_id = ${uuid(proposalId)} AND status = 'open' AND at > ${at} - ${LIFE_MS}
          AND ${status === "rejected" ? expr`1` : expr`operator <> ${operator}`})
      AND NOT EXISTS (SELECT 1 FROM audit_events INDEXED BY audit_events_rights
        WHERE subject_id = ${proposalId} AND kind = ${kind} AND details IS NOT NULL)`,
    statements: (_, applied) => [
      sql`UPDATE operator_proposals SET status = ${status}, decided_by = ${operator}
        WHERE proposal_id = ${uuid(proposalId)} AND ${applied}`,
    ],
  });
}

function notOpen(detail: string): OperatorRejection {
  return new OperatorRejection("proposal_not_open", detail);
}

/** Deletes old proposals. The orders that made and decided them stay in the audit log. */
export function trimProposals(db: D1Database): Promise<number> {
  const old = sql`WHERE at < ${NOW} - ${KEPT_MS}`;
  return trimUntilDone(db, rowsOf("operator_proposals", "proposal_id", old));
}
