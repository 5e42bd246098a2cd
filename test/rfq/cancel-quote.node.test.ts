import { expect, it } from "vitest";
import { newGroup } from "../../src/platform/commit.ts";
import { cancelQuote } from "../../src/rfq/cancel-quote.ts";
import { migratedDatabase } from "../../scripts/migrations/files.ts";

const id = "0196f0c2-0000-7000-8000-000000000001";

it("finds each quote by its id", () => {
  const { statements } = cancelQuote({
    op: "cancel_quote",
    operationId: id,
    quoteId: id,
    receivedAt: 0,
    actor: { userId: id, scopes: ["trade"], credential: { kind: "api_key", apiKeyId: id } },
  });
  const database = migratedDatabase();
  const quotes = statements(newGroup()).flatMap(({ text }) =>
    database
      .prepare(`EXPLAIN QUERY PLAN ${text}`)
      .all()
      .map(({ detail }) => String(detail))
      .filter((detail) => /^(SEARCH|SCAN) (quotes|q)\b/.test(detail)),
  );
  expect(quotes).toEqual(["SEARCH quotes USING PRIMARY KEY (quote_id=?)"]);
});
