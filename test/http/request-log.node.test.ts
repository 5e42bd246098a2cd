import { beforeEach, expect, it, vi } from "vitest";
import { newRequestContext } from "../../src/http/request-context.ts";
import type { ProblemCode } from "../../src/platform/problem.ts";
import { RequestLog } from "../../src/http/request-log.ts";

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
const COUNTED = "00000001-0000-4000-8000-000000000000";
/** 200 is. */
const CHOSEN = "000000c8-0000-4000-8000-000000000000";

function serve(
  requests: RequestLog,
  status: number,
  {
    id = COUNTED,
    ms = 0,
    settings = SETTINGS,
    problem = null,
  }: {
    id?: string;
    ms?: number;
    settings?: typeof SETTINGS;
    problem?: ProblemCode | null;
  } = {},
) {
  const context = {
    ...newRequestContext(new Request("https://api.test/time"), () => {}),
    requestId: id,
    route: "/time",
    problem,
    userId: "u",
    apiKeyId: "k",
    clientIp: "192.0.2.1",
  };
  vi.advanceTimersByTime(ms);
  requests.add(context, { method: "GET", status }, settings);
}

const events = () => lines.map(({ event }) => event);

it.each([
  [400, "invalid_request", "info"],
  [429, "rate_limited", "info"],
  [500, "internal", "error"],
  [503, "unavailable", "error"],
  [503, "withdrawals_paused", "info"],
] as const)("logs every %s %s whole, as %s", (status, problem, level) => {
  serve(new RequestLog(), status, { ms: 7, problem });
  expect(lines).toEqual([
    {
      level,
      event: "request",
      request_id: COUNTED,
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
  const requests = new RequestLog();
  serve(requests, 200, { ms: 999 });
  serve(requests, 200, { ms: 1_000 });
  expect(lines).toMatchObject([{ event: "request", status: 200, duration_ms: 1_000 }]);
});

it("logs one success in a hundred, chosen by its id", () => {
  const requests = new RequestLog();
  for (let n = 0; n < 10_000; n++)
    serve(requests, 200, { id: n.toString(16).padStart(8, "0") + COUNTED.slice(8) });
  expect(events()).toHaveLength(100);
  lines = [];
  serve(requests, 101, { id: CHOSEN });
  expect(lines).toMatchObject([{ event: "request", request_id: CHOSEN, status: 101 }]);
});

it("counts the other successes and logs the counts once a minute", () => {
  const requests = new RequestLog();
  serve(requests, 200, { ms: 10 });
  serve(requests, 200, { ms: 30 });
  serve(requests, 304, { ms: 5 });
  vi.advanceTimersByTime(59_000);
  serve(requests, 200, { id: CHOSEN });
  expect(events()).toEqual(["request"]);
  vi.advanceTimersByTime(1_000);
  serve(requests, 200, { ms: 2 });
  expect(lines.slice(1)).toEqual([
    {
      level: "info",
      event: "requests_counted",
      request: "GET /time 200",
      count: 3,
      duration_ms: 42,
      max_duration_ms: 30,
    },
    {
      level: "info",
      event: "requests_counted",
      request: "GET /time 304",
      count: 1,
      duration_ms: 5,
      max_duration_ms: 5,
    },
  ]);
  lines = [];
  vi.advanceTimersByTime(60_000);
  serve(requests, 500);
  expect(events()).toEqual(["request"]);
});

it("logs every request if LOG_SUCCESS_ONE_IN is 1", () => {
  const requests = new RequestLog();
  for (const id of [COUNTED, CHOSEN])
    serve(requests, 200, { id, settings: { ...SETTINGS, LOG_SUCCESS_ONE_IN: 1 } });
  expect(events()).toEqual(["request", "request"]);
});
