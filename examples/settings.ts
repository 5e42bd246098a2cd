/** What every example needs to know, from the environment. */
import { Client } from "../src/client/index.ts";

/** A client with the API key of RFQ_API_KEY_ID and RFQ_SECRET, of the service at RFQ_URL. */
export function clientOfEnvironment(): Client {
  return new Client({
    baseUrl: setting("RFQ_URL"),
    credential: { apiKeyId: setting("RFQ_API_KEY_ID"), secret: setting("RFQ_SECRET") },
  });
}

export function setting(name: string, fallback?: string): string {
  const value = process.env[name] ?? fallback;
  if (value === undefined || value === "") {
    console.error(`Set ${name}; examples/README.md says how.`);
    process.exit(2);
  }
  return value;
}
