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
    rpc_urls: ["http://node-one.simulated"],
    factory: "0x00000000000000000000000000000000000000f1",
    vault: "0x00000000000000000000000000000000000000f2",
    usdc: "0x00000000000000000000000000000000000000f3",
    confirmations: 3,
    default: true,
  };
  const ring = JSON.stringify({ k1: "simulated-secret-0123456789abcdef0123456789" });
  return {
    CHAINS: JSON.stringify([chain]),
    VENUES: JSON.stringify([venue("venue_one", 1, 0, 0), venue("venue_two", 2, 100, 50)]),
    SESSION_SECRETS: ring,
    MASTER_KEYS: ring,
    ADDRESS_KEY: "simulated-address-key-0123456789abcdef",
  };
}
