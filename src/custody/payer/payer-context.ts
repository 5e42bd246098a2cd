/** Context that every step of the payer receives. */
import type { Cursor } from "../../chain/chain-cursor.ts";
import type { FeeMarket } from "../../chain/fees.ts";
import type { OperatorAccount } from "../../chain/payer-account.ts";
import type { BlockHeader, Endpoint } from "../../chain/rpc.ts";
import type { ChainContext } from "../chain-object.ts";
import type { WithdrawalRecord } from "./withdrawal-record.ts";

/** What metrics show of the last rounds. Members are absent until a round has seen them. */
export type PayerLevels = {
  gasWei?: number;
  /** What the next payments may cost. Below it is the alert `gas_low`. */
  gasNeededWei?: number;
  /** Nonces that are signed and not mined at the head. */
  nonceGap?: number;
};

export type PayerContext = ChainContext & {
  /** UUID of this payer instance, stored in the lease. */
  readonly token: string;
  /** Saves recovery records outside the database before signing (restore-payments.ts). */
  readonly saveRecords: (records: readonly WithdrawalRecord[]) => Promise<void>;
  readonly levels?: PayerLevels;
};

/** The payer's context with its view of the chain's head (agreed-reads.ts). */
export type HeadView = PayerContext & {
  readonly account: OperatorAccount;
  /** One of the endpoints that the view is from. It simulates calls and reads balances. */
  readonly endpoint: Endpoint;
  /** Whether enough endpoints agree on the view. Otherwise nothing ends, reopens or halts. */
  readonly agreed: boolean;
  readonly head: BlockHeader;
  readonly market: FeeMarket;
  /** Number of nonces used at the head. Nonces below it are mined. */
  readonly usedNonces: number;
  readonly cursor: Cursor;
};
