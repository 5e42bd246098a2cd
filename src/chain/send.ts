/** Sends a signed transaction to one endpoint and classifies the response. */
import { BaseError, HttpRequestError } from "viem";
import type { ChainConfig } from "../platform/config.ts";
import { log } from "../platform/log.ts";
import { describe, type Endpoint, endpoints, gather, type Hex, hostOf } from "./rpc.ts";
import { isNodeError } from "./rpc-transport.ts";

export type SendResult = {
  readonly host: string;
  /**
   * `refused`: the node states a reason, so sending the same bytes again does not help.
   * `unreachable`: no response, so the node may have accepted them.
   */
  readonly status: "accepted" | "refused" | "unreachable";
  readonly reason?: string;
};

/**
 * Errors of nodes that have the transaction, or whose chain has used its nonce: of geth, anvil
 * ("already imported"), Nethermind ("AlreadyKnown", "OldNonce") and Besu ("Known transaction").
 */
const KNOWN = /already ?known|known transaction|already imported|nonce ?(is )?too ?low|old ?nonce/i;

/** Sends to every endpoint. Returns once one has accepted, while slower ones are still called. */
export async function sendToAll(chain: ChainConfig, raw: Hex): Promise<readonly SendResult[]> {
  const results: SendResult[] = [];
  const sends = endpoints(chain, "patient").map(async (endpoint) => {
    const sent = await sendTo(endpoint, raw);
    results.push(sent);
    const { status, reason } = sent;
    if (status !== "accepted")
      log("info", "payer.send_unconfirmed", { chain: chain.chain, status, reason });
  });
  await gather(sends, () => results.some(({ status }) => status === "accepted"));
  return results;
}

async function sendTo(endpoint: Endpoint, raw: Hex): Promise<SendResult> {
  const host = hostOf(endpoint.url);
  try {
    await endpoint.client.sendRawTransaction({ serializedTransaction: raw });
    return { host, status: "accepted" };
  } catch (error) {
    const reason = describe(error);
    if (KNOWN.test(reason)) return { host, status: "accepted", reason };
    return { host, status: isRefusal(error) ? "refused" : "unreachable", reason };
  }
}

/** A JSON-RPC error, or an HTTP response that rejects the request itself. */
function isRefusal(error: unknown): boolean {
  if (isNodeError(error)) return true;
  if (!(error instanceof BaseError)) return false;
  const cause = error.walk((inner) => inner instanceof HttpRequestError);
  const { status = 0 } = cause instanceof HttpRequestError ? cause : {};
  return status >= 400 && status < 500;
}
