/** Settings of the simulated deployment. Its secrets protect nothing. */
export function settings(): Record<string, string> {
  const venue = (venue_id: string, digit: number, taker: number, maker: number) => ({
    venue_id,
    chain: "polygon",
    outcome_tokens: `0x000000000000000000000000000000000000010${digit}`,
    taker_fee_bps: taker,
    maker_fee_bps: maker,
  });
  const chain = {
    chain: "polygon",
    chain_id: 137,
    rpc_urls: ["one", "two", "three"].map((node) => `http://${node}.simulated`),
    factory: "0x00000000000000000000000000000000000000f1",
    vault: "0x00000000000000000000000000000000000000f2",
    usdc: "0x00000000000000000000000000000000000000f3",
    confirmations: 3,
    poll_ms: 15_000,
    min_deposit: 1,
    default: true,
  };
  const ring = JSON.stringify({ k1: "simulated-secret-0123456789abcdef0123456789" });
  return {
    DEPLOYMENT: "simulated",
    CHAINS: JSON.stringify([chain]),
    VENUES: JSON.stringify([venue("venue_one", 1, 0, 0), venue("venue_two", 2, 100, 50)]),
    // A seed lasts hours, in which a user sends more than people do.
    RFQ_DAILY_REQUESTS: "10000000",
    STREAM_DAILY_TICKETS: "1000000",
    WITHDRAWAL_DAILY_COUNT: "100000",
    DEPOSIT_DAILY_ADDRESSES: "1000",
    // Windows of seconds, so that every seed seals, releases and reads what was sealed.
    HOT_WINDOWS_DIVISOR: "720",
    SESSION_SECRETS: ring,
    MASTER_KEYS: ring,
    AUDIT_KEYS: JSON.stringify({ a1: "c2ltdWxhdGVkLWF1ZGl0LXNlZWQtMDEyMzQ1Njc4OWE" }),
    PAYER_KEYS: JSON.stringify({ polygon: `0x${"11".repeat(32)}` }),
    ADDRESS_KEY: "simulated-address-key-0123456789abcdef",
  };
}
