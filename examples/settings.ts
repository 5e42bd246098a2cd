/** What every example needs to know, from the environment. */
import { Client } from "@rfq-custody/client";

/** A client with the API key of RFQ_API_KEY_ID and RFQ_SECRET, of the service at RFQ_URL. */
export function clientOfEnvironment(): Client {
  return new Client({
    baseUrl: setting("RFQ_URL"),
    credential: { apiKeyId: setting("RFQ_API_KEY_ID"), secret: setting("RFQ_SECRET") },
  });
}

/** A whole number that a wrong letter does not turn into no limit at all. */
export function wholeSetting(name: string, fallback: bigint): bigint {
  const value = setting(name, String(fallback));
  if (!/^\d{1,78}$/.test(value)) refuse(`${name} is "${value}", which is not a whole number.`);
  return BigInt(value);
}

/** A price scaled by 1e6, as everywhere: 1 to 1000000. */
export function priceSetting(name: string, fallback: number): number {
  const price = wholeSetting(name, BigInt(fallback));
  if (price < 1n || price > 1_000_000n)
    refuse(`${name} is ${price}; a price is 1 to 1000000, scaled by 1e6.`);
  return Number(price);
}

function setting(name: string, fallback?: string): string {
  const value = process.env[name] || fallback;
  return value ?? refuse(`Set ${name}; examples/README.md says how.`);
}

export function refuse(fault: string): never {
  console.error(fault);
  process.exit(2);
}
