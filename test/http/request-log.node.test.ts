import { beforeEach, expect, it, vi } from "vitest";
import { newRequestContext } from "../../src/http/request-context.ts";
import type { ProblemCode } from "../../src/platform/problem.ts";
import { logRequest } from "../../src/http/edge.ts";

const START = 1_800_000_000_000;
const SETTINGS = { LOG_SUCCESS_ONE_IN: 100, LOG_SLOW_MS: 1_000 };
let lines: Record<string, unknown>[];

beforeEach(() => {
  vi.useFakeTimers({ now: START });
  lines = [];
  const keep = (line: unknown) => void lines.push(JSON.parse(String(line)));
  vi.spyOn(console, "log").mockImplementation(keep);
  vi.spyOn(console, "error").mockImplementation(keep);
  return () => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  };
});

/** Not divisible by 100, so a success has no line. */
const UNCHOSEN = "00000001-0000-4000-8000-000000000000";
/** 200 is. */
const CHOSEN = "000000c8-0000-4000-8000-000000000000";

function serve(
  status: number,
  {
    id = UNCHOSEN,
    ms = 0,
    settings = SETTINGS,
    problem = null,
    inbound,
    userId = "u",
  }: {
    id?: string;
    ms?: number;
    settings?: typeof SETTINGS;
    problem?: ProblemCode | null;
    inbound?: string;
    userId?: string | null;
  } = {},
) {
  const context = {
    ...newRequestContext(new Request("https://api.test/time"), () => {}),
    inboundRequestId: inbound ?? null,
    requestId: id,
    route: "/time",
    problem,
    userId,
    apiKeyId: "k",
    clientIp: "192.0.2.1",
  };
  vi.advanceTimersByTime(ms);
  logRequest(context, { method: "GET", status }, settings);
}

const events = () => lines.map(({ event }) => event);

it.each([
  [400, "invalid_request", "info"],
  [429, "rate_limited", "info"],
  [500, "internal", "error"],
  [503, "unavailable", "error"],
  [503, "withdrawals_paused", "info"],
] as const)("logs every %s %s whole, as %s", (status, problem, level) => {
  serve(status, { ms: 7, problem });
  expect(lines).toEqual([
    {
      level,
      event: "request",
      request_id: UNCHOSEN,
      inbound_request_id: null,
      method: "GET",
      route: "/time",
      status,
      problem,
      duration_ms: 7,
      user_id: "u",
      api_key_id: "k",
      ip: "192.0.2.1",
    },
  ]);
});

it("logs every slow success", () => {
  serve(200, { ms: 999 });
  serve(200, { ms: 1_000 });
  expect(lines).toMatchObject([{ event: "request", status: 200, duration_ms: 1_000 }]);
});

it("logs one success in a hundred, chosen by its id", () => {
  for (let n = 0; n < 10_000; n++)
    serve(200, { id: n.toString(16).padStart(8, "0") + UNCHOSEN.slice(8) });
  expect(events()).toHaveLength(100);
  lines = [];
  serve(101, { id: CHOSEN });
  expect(lines).toMatchObject([{ event: "request", request_id: CHOSEN, status: 101 }]);
});

it("logs every request if LOG_SUCCESS_ONE_IN is 1", () => {
  for (const id of [UNCHOSEN, CHOSEN])
    serve(200, { id, settings: { ...SETTINGS, LOG_SUCCESS_ONE_IN: 1 } });
  expect(events()).toEqual(["request", "request"]);
});

it("logs successes of known callers that name them, 100 a minute and user", () => {
  serve(200, { inbound: "mine", userId: null });
  expect(lines).toEqual([]);
  for (let n = 0; n < 150; n++) serve(200, { inbound: `mine-${n}` });
  expect(lines).toHaveLength(100);
  expect(lines[0]).toMatchObject({ inbound_request_id: "mine-0", request_id: UNCHOSEN });
  serve(200, { inbound: "theirs", userId: "other" });
  serve(200, { inbound: "later", ms: 60_000, settings: { ...SETTINGS, LOG_SLOW_MS: 90_000 } });
  expect(lines.slice(100).map((line) => line["inbound_request_id"])).toEqual(["theirs", "later"]);
});
