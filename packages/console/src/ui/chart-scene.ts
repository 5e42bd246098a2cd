/** Where the parts of a chart are. Only drawn: a pixel is coarser than what a float loses. */
import { LOCALE } from "../units.ts";

export type Point = { readonly at: string; readonly value: number; readonly volume?: number };
export type Line = { readonly name: string; readonly points: readonly Point[] };
/** USDC change in steps. */
export type Unit = "%" | "USDC";

const RIGHT: Record<Unit, number> = { "%": 56, USDC: 72 };
const BOTTOM = 24;
const TOP = 8;
/** Pixels between two labels. */
const [APART_X, APART_Y] = [84, 44];
const MINUTE = 60_000;
const DAY = 1_440 * MINUTE;
const STEPS = [
  1, 5, 15, 30, 60, 120, 180, 360, 720, 1_440, 2_880, 10_080, 43_200, 129_600, 525_600,
];
const DAYS = new Intl.DateTimeFormat(LOCALE, { day: "numeric", month: "short" });
const TIMES = new Intl.DateTimeFormat(LOCALE, { hour: "2-digit", minute: "2-digit" });

export function valueText(value: number, unit: Unit): string {
  return unit === "%" ? `${Number(value.toFixed(1))}%` : value.toLocaleString(LOCALE);
}

export function instantText(at: number): string {
  return `${DAYS.format(at)}, ${TIMES.format(at)}`;
}

type Box = { readonly unit: Unit; readonly width: number; readonly height: number };
export type Scene = NonNullable<ReturnType<typeof sceneOf>>;

/** Null without two instants. */
export function sceneOf(lines: readonly Line[], { unit, width, height }: Box) {
  const all = lines.map(({ points }) =>
    points.map(({ at, ...rest }) => ({ at: Date.parse(at), ...rest })),
  );
  const times = all.flat().map(({ at }) => at);
  const values = all.flat().map(({ value }) => value);
  const [from, to] = [least(times), most(times)];
  if (times.length < 2 || from === to) return null;
  const [right, bottom] = [width - RIGHT[unit], height - BOTTOM];
  const [low, high] = rangeOf(values, unit);
  const x = (at: number) => ((at - from) / (to - from)) * right;
  const y = (value: number) => bottom - ((value - low) / (high - low)) * (bottom - TOP);
  const [main = []] = all;
  const loudest = most(main.map(({ volume = 0 }) => volume));
  const bar = Math.min(12, Math.max(1, (right / main.length) * 0.7));
  const bars = main.flatMap(({ at, volume = 0 }) => {
    // A fifth of the height.
    const tall = loudest === 0 ? 0 : (volume / loudest) * (bottom - TOP) * 0.2;
    return tall < 1
      ? []
      : [`M${fixed(x(at) - bar / 2)} ${bottom}v${fixed(-tall)}h${fixed(bar)}V${bottom}`];
  });
  return {
    right,
    bottom,
    low,
    high,
    x,
    y,
    bars: bars.join(""),
    paths: all.map((points) => pathOf(points, { x, y, stepped: unit === "USDC" })),
    ys: levelsOf(low, high, (bottom - TOP) / APART_Y),
    xs: instantsOf(from, to, right / APART_X).filter((at) => x(at) > 24 && x(at) < right - 16),
    instantLabel: (at: number) => (to - from > 2 * DAY ? DAYS : TIMES).format(at),
    /** The instant of the main line that is nearest to a place, and all values then. */
    read: (place: number) => {
      const wanted = from + (Math.min(Math.max(place, 0), right) / right) * (to - from);
      const [first] = main;
      const nearest = main.reduce(
        (best, one) => (Math.abs(one.at - wanted) < Math.abs(best.at - wanted) ? one : best),
        first ?? { at: from, value: 0 },
      );
      return {
        at: nearest.at,
        // A line without a point here has the value of the one before.
        values: all.map((points) => points.findLast(({ at }) => at <= nearest.at)?.value ?? null),
      };
    },
  };
}

const fixed = (value: number) => value.toFixed(1);
const least = (values: readonly number[]) =>
  values.reduce((one, other) => Math.min(one, other), Infinity);
const most = (values: readonly number[]) => values.reduce((one, other) => Math.max(one, other), 0);

function rangeOf(values: readonly number[], unit: Unit): readonly [number, number] {
  const [low, high] = [least(values), most(values)];
  if (unit === "%") return [Math.max(0, low - 2), Math.min(100, high + 2)];
  const edge = (high - low || high || 1) * 0.1;
  return [Math.max(0, low - edge), high + edge];
}

type Scales = { x: (at: number) => number; y: (value: number) => number; stepped: boolean };

function pathOf(points: readonly { at: number; value: number }[], { x, y, stepped }: Scales) {
  return points
    .map(({ at, value }, index) => {
      const [px, py] = [fixed(x(at)), fixed(y(value))];
      return index === 0 ? `M${px} ${py}` : stepped ? `H${px}V${py}` : `L${px} ${py}`;
    })
    .join("");
}

/** Round values, at most about `count`. */
function levelsOf(low: number, high: number, count: number): number[] {
  const raw = (high - low) / Math.max(1, count);
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5].find((factor) => factor * size >= raw) ?? 10) * size;
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, index) =>
    Number(((first + index) * step).toPrecision(12)),
  );
}

/** Round instants of local time, at most about `count`. */
function instantsOf(from: number, to: number, count: number): number[] {
  const step = (STEPS.find((one) => (to - from) / (one * MINUTE) <= count) ?? 525_600) * MINUTE;
  const shift = new Date(from).getTimezoneOffset() * MINUTE;
  const first = Math.ceil((from - shift) / step) * step + shift;
  return Array.from({ length: Math.floor((to - first) / step) + 1 }, (_, at) => first + at * step);
}
