import { describe, expect, it, vi } from "vitest";
import { HttpRequestError, type Hex } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { toEip1559, type Unsigned, payerAccount } from "../../src/chain/payer-account.ts";
import { config, defaultChain } from "../../src/platform/config.ts";
import { errorFields } from "../../src/platform/log.ts";
import { testSettings } from "../support/settings.ts";

const KEYED = "https://node.example/v2/key-0123456789";
const key: Hex = `0x${"11".repeat(32)}`;
const account = privateKeyToAccount(key);
const signer = { url: "https://signer.example", address: account.address };

it("a setting that Cloudflare would not take is named with its size", () => {
  const NOTICE_URL = `https://notices.example/${"x".repeat(4_977)}`;
  const load = () => config({ ...testSettings(), NOTICE_URL });
  expect(load).toThrow("Settings are not valid: NOTICE_URL has 5001 bytes, and at most 5000 fit");
});

describe("a receiver of notices", () => {
  const NOTICE_SECRETS = JSON.stringify(["whsec_bmV3ZXItc2VjcmV0LW9mLTMyLWJ5dGVzLTAxMjM0NTY="]);

  it.each([
    ["https://mail.example/notices"],
    ["http://127.0.0.1:8080/notices"],
    ["http://localhost:8080"],
  ])("may be %s", (NOTICE_URL) => {
    const settings = config({ ...testSettings(), NOTICE_URL, NOTICE_SECRETS });
    expect(settings).toMatchObject({ NOTICE_URL, NOTICE_SECRETS: JSON.parse(NOTICE_SECRETS) });
  });

  it.each([["http://mail.example"], ["mail.example"], ["ftp://mail.example"]])(
    "may not be %s",
    (NOTICE_URL) => {
      const load = () => config({ ...testSettings(), NOTICE_URL, NOTICE_SECRETS });
      expect(load).toThrow("NOTICE_URL: must be an https URL");
    },
  );

  it("is nobody if the secret is empty", () => {
    expect(config({ ...testSettings(), ALERT_URL: "{}" })).toMatchObject({ ALERT_URL: "" });
  });

  it("needs a secret of its own, of the form of Standard Webhooks", () => {
    const load = (secrets: object) => () =>
      config({ ...testSettings(), NOTICE_URL: "https://mail.example", ...secrets });
    expect(load({})).toThrow("NOTICE_URL is set without NOTICE_SECRETS");
    expect(load({ NOTICE_SECRETS: '["whsec_short"]' })).toThrow("NOTICE_SECRETS.0: must be whsec_");
    const three = JSON.stringify(Array(3).fill(JSON.parse(NOTICE_SECRETS)[0]));
    expect(load({ NOTICE_SECRETS: three })).toThrow("NOTICE_SECRETS: too_big");
  });
});

describe("the secrets of ALERT_URL", () => {
  const OURS = "whsec_bmV3ZXItc2VjcmV0LW9mLTMyLWJ5dGVzLTAxMjM0NTY=";
  const KEY = "0123456789abcdef0123456789ABCDEF";
  const load = (ALERT_FORMAT: string, secrets: readonly string[]) => () =>
    config({
      ...testSettings(),
      ALERT_URL: "https://pager.example",
      ALERT_FORMAT,
      ALERT_SECRETS: JSON.stringify(secrets),
    });

  it.each([
    ["webhook", [OURS, OURS]],
    ["pagerduty", [KEY]],
    ["slack", []],
  ])("fit the format %s", (format, secrets) => {
    expect(load(format, secrets)()).toMatchObject({ ALERT_SECRETS: secrets });
  });

  it.each([
    ["webhook", []],
    ["webhook", [KEY]],
    ["pagerduty", [OURS]],
    ["pagerduty", [KEY, KEY]],
    ["slack", [KEY]],
  ])("do not fit the format %s: %s", (format, secrets) => {
    expect(load(format, secrets)).toThrow("ALERT_SECRETS must contain");
  });
});

it.each([undefined, "", "Acme"])("nothing starts with the DEPLOYMENT %s", (name) => {
  const { DEPLOYMENT: _, ...others } = testSettings();
  const settings = name === undefined ? others : { ...others, DEPLOYMENT: name };
  expect(() => config(settings)).toThrow("DEPLOYMENT: must name this deployment and no other");
});

describe("RPC URLs from a secret", () => {
  it("replace those of CHAINS", () => {
    const settings = config({ ...testSettings(), RPC_URLS: JSON.stringify({ local: [KEYED] }) });
    expect(defaultChain(settings).rpc_urls).toEqual([KEYED]);
  });

  it("are enough where CHAINS has none, and one of the two is required", () => {
    const { CHAINS = "[]", ...others } = testSettings();
    const [{ rpc_urls: _, ...chain }] = JSON.parse(CHAINS) as [{ rpc_urls: string[] }];
    const without = { ...others, CHAINS: JSON.stringify([chain]) };
    const settings = config({ ...without, RPC_URLS: JSON.stringify({ local: [KEYED] }) });
    expect(defaultChain(settings).rpc_urls).toEqual([KEYED]);
    expect(() => config(without)).toThrow("CHAINS and RPC_URLS have no URL for local");
  });

  it("of a chain that does not exist are rejected", () => {
    const wrong = { ...testSettings(), RPC_URLS: JSON.stringify({ locl: [KEYED] }) };
    expect(() => config(wrong)).toThrow("RPC_URLS has an unknown chain locl");
  });

  it.each([
    ["the same text", "https://node.example/v2"],
    ["a slash at the end", "https://node.example/v2/"],
    ["capitals in the host", "https://Node.EXAMPLE/v2"],
    ["the default port", "https://node.example:443/v2"],
    ["a dot after the host", "https://node.example./v2"],
    ["another user", "https://other:secret@node.example/v2"],
    ["another query", "https://node.example/v2?key=secret"],
    ["another fragment", "https://node.example/v2#secret"],
    ["no TLS", "http://node.example/v2"],
  ])("that name one endpoint twice are rejected: %s", (_, second) => {
    const urls = { local: ["https://node.example/v2", "https://third.example", second] };
    const load = () => config({ ...testSettings(), RPC_URLS: JSON.stringify(urls) });
    expect(load).toThrow("the RPC URLs of local name one endpoint of node.example twice");
    expect(load).not.toThrow("secret");
  });

  it("that differ in their port or path are two endpoints", () => {
    const local = ["https://node.example/a", "https://node.example/b", "https://node.example:1/a"];
    const settings = config({ ...testSettings(), RPC_URLS: JSON.stringify({ local }) });
    expect(defaultChain(settings).rpc_urls).toEqual(local);
  });

  it("never reach the log with their paths", () => {
    const cause = new HttpRequestError({ url: KEYED, body: {}, status: 401 });
    const fields = errorFields(new Error(`asking ${KEYED}?apikey=1 failed`, { cause }));
    expect(fields["message"]).toBe("asking https://node.example failed");
    expect(fields["cause"]).toContain("URL: https://node.example");
    expect(JSON.stringify(fields)).not.toContain("key-0123456789");
    expect(errorFields(new Error("at https://user:word@node.example/x"))["message"]).toBe(
      "at https://node.example",
    );
  });
});

describe("a remote signer's headers", () => {
  const asked: Unsigned = {
    nonce: 3,
    to: account.address,
    data: "0xabcdef",
    gasLimit: 100_000n,
    fees: { maxFee: 10n, priorityFee: 2n },
  };
  const withSigner = (changes: object, values: object) => ({
    ...testSettings(),
    PAYER_SIGNERS: JSON.stringify({ local: { ...signer, ...changes } }),
    PAYER_SIGNER_HEADERS: JSON.stringify(values),
  });

  it("authenticate each of its requests", async () => {
    const raw = await account.signTransaction(toEip1559(asked, 31_337));
    const sent: (string | null)[] = [];
    vi.stubGlobal("fetch", async (input: Request | string, init?: RequestInit) => {
      sent.push(new Request(input, init).headers.get("authorization"));
      return Response.json({ jsonrpc: "2.0", id: 1, result: raw });
    });
    const values = { local: { authorization: "Bearer word-of-the-gateway", unused: "x" } };
    const settings = config(withSigner({ headers: ["authorization"] }, values));
    const signed = await payerAccount(settings, defaultChain(settings)).sign(asked);
    vi.unstubAllGlobals();
    expect(signed.raw).toBe(raw);
    expect(sent).toEqual(["Bearer word-of-the-gateway"]);
  });

  it("must have values, and are sent over https only", () => {
    const headers = ["authorization"];
    expect(() => config(withSigner({ headers }, {}))).toThrow(
      "PAYER_SIGNER_HEADERS has no authorization for local",
    );
    const values = { local: { authorization: "Bearer word-of-the-gateway" } };
    const insecure = { url: "http://signer.example", headers };
    expect(() => config(withSigner(insecure, values))).toThrow("must have an https URL");
    expect(() => config(withSigner({ headers: ["Bad Name"] }, values))).toThrow(
      /^Settings are not valid: PAYER_SIGNERS\.local\.headers\.0: invalid_format$/,
    );
  });
});
