/** Settings from the environment, and how the examples report errors. */
import { Client, NoAnswer, Problem } from "@rfq-custody/client";

/** A client with the API key of RFQ_API_KEY_ID and RFQ_SECRET, for the service at RFQ_URL. */
export function clientOfEnvironment(): Client {
  return new Client({
    baseUrl: setting("RFQ_URL"),
    credential: { apiKeyId: setting("RFQ_API_KEY_ID"), secret: setting("RFQ_SECRET") },
  });
}

/** A whole number. A typing error ends the program, so that it cannot remove a limit. */
export function wholeSetting(name: string, fallback: bigint): bigint {
  const value = setting(name, String(fallback));
  if (!/^\d{1,78}$/.test(value)) refuse(`${name} is "${value}", which is not a whole number.`);
  return BigInt(value);
}

/** A price scaled by 1e6, as in the API: 1 to 1000000. */
export function priceSetting(name: string, fallback: number): number {
  const price = wholeSetting(name, BigInt(fallback));
  if (price < 1n || price > 1_000_000n)
    refuse(`${name} is ${price}, but a price is 1 to 1000000, scaled by 1e6.`);
  return Number(price);
}

function setting(name: string, fallback?: string): string {
  const value = process.env[name] || fallback;
  return value ?? refuse(`Set ${name}. examples/README.md says how.`);
}

/** Ends the program because its arguments or settings are wrong. */
export function refuse(reason: string): never {
  console.error(reason);
  process.exit(2);
}

/** Exits with the code that `main` returns, or with 1 and one line if a call fails. */
export async function runProgram(main: () => Promise<number>): Promise<never> {
  try {
    process.exit(await main());
  } catch (error) {
    if (!(error instanceof Problem || error instanceof NoAnswer)) throw error;
    console.error(error.message);
    process.exit(1);
  }
}
