/** Settings and throw-away secrets of the tests. Nothing listens at the RPC URL of the chain. */
export function testSettings(): Record<string, string> {
  const chain = {
    chain: "local",
    chain_id: 31337,
    rpc_urls: ["http://127.0.0.1:1"],
    factory: "0x00000000000000000000000000000000000000f1",
    vault: "0x00000000000000000000000000000000000000f2",
    usdc: "0x00000000000000000000000000000000000000f3",
    confirmations: 2,
    poll_ms: 1_000,
    default: true,
  };
  const venue = (venue_id: string, digit: number) => ({
    venue_id,
    chain: "local",
    outcome_tokens: `0x000000000000000000000000000000000000010${digit}`,
    min_request: 1,
    min_priced_trade: 1,
  });
  return {
    WEBHOOK_LOOPBACK: "on",
    AUTH_REGISTRATION: "open",
    AUTH_FRESH_SESSION_SECS: "604800",
    AUTH_LOGINS_PER_MINUTE: "10000",
    AUTH_OPERATOR_KEY_DELAY_SECS: "0",
    AUTH_SECURITY_DELAY_SECS: "0",
    RATE_LIMITS: "off",
    LOG_SUCCESS_ONE_IN: "1",
    METRICS_TOKEN: "test-metrics-token-0123456789abcdef",
    WITHDRAWAL_MIN_UNITS: "1",
    AUTH_DAILY_API_KEYS: "1000",
    DEPOSIT_DAILY_ADDRESSES: "100",
    // A machine that runs other tests at the same time is slow. Tests of the limit set their own.
    RFQ_COMMAND_MAX_WAIT_MS: "30000",
    SETTLE_DELAY_SECS: "0",
    CHAINS: JSON.stringify([chain]),
    VENUES: JSON.stringify([
      venue("venue_one", 1),
      { ...venue("venue_two", 2), taker_fee_bps: 100, maker_fee_bps: 50 },
      venue("venue_three", 3),
      { venue_id: "venue_four", min_request: 1, min_priced_trade: 1 },
    ]),
    DEPLOYMENT: "test",
    DEPLOY_ENV: "test",
    OPERATORS: JSON.stringify({
      test: "erE6a_XaJ9iu_bHZAyNZpZ6y7uVR9P-UveJtv-wEaCs",
      second: "Fwou4hOurl7Yv_JiiuvLB7nI-L9GRXXSCGBeo4Ntt7M",
    }),
    AUDIT_KEYS: JSON.stringify({
      a2: "dGVzdC1hdWRpdC1zZWVkLTItMDEyMzQ1Njc4OWFiY2Q",
      a1: "dGVzdC1hdWRpdC1zZWVkLTEtMDEyMzQ1Njc4OWFiY2Q",
    }),
    SESSION_SECRETS: JSON.stringify({
      t2: "test-session-secret-2-0123456789abcdef",
      t1: "test-session-secret-1-0123456789abcdef",
    }),
    MASTER_KEYS: JSON.stringify({ m1: "dGVzdC1tYXN0ZXIta2V5LTAxMjM0NTY3ODlhYmNkZWY" }),
    ADDRESS_KEY: "test-address-key-0123456789abcdef0123456789",
    PAYER_KEYS: JSON.stringify({ local: `0x${"11".repeat(32)}` }),
  };
}
