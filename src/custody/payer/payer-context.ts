/** What every step of the payer receives. */
import type { Cursor } from "../../chain/cursor.ts";
import type { Market } from "../../chain/fees.ts";
import type { OperatorAccount } from "../../chain/operator-account.ts";
import type { BlockHeader, Endpoint } from "../../chain/rpc.ts";
import type { ChainConfig, Config } from "../../platform/config.ts";
import type { Failpoint } from "../../platform/failpoint.ts";
import type { StreamEvent } from "../../streams/event-log.ts";
import type { WithdrawalRecord } from "./withdrawal-record.ts";

export type PayerContext = {
  readonly db: D1Database;
  readonly settings: Config;
  readonly chain: ChainConfig;
  /** Of this payer alone; a UUID. */
  readonly token: string;
  readonly push: (events: readonly StreamEvent[]) => Promise<void>;
  /** Index of the RPC endpoint to ask first: another one after a round that failed, whatever it failed at. */
  readonly firstEndpoint?: number;
  /** Keeps a copy of what is about to be signed outside the database, for a restore (restore-payments.ts). */
  readonly saveRecords: (records: readonly WithdrawalRecord[]) => Promise<void>;
  /** Set only by tests, which end the process there. */
  readonly failpoint?: Failpoint;
};

/** What the head of the chain shows the payer, all from one endpoint. */
export type HeadView = PayerContext & {
  readonly account: OperatorAccount;
  readonly endpoint: Endpoint;
  readonly head: BlockHeader;
  readonly market: Market;
  /** Nonces below it are used in the head's chain. */
  readonly usedNonces: number;
  readonly cursor: Cursor;
};
