import { type PointerEvent, useEffect, useMemo, useRef, useState } from "react";
import {
  instantText,
  type Line,
  sceneOf,
  type Scene,
  type Unit,
  valueText,
} from "./chart-scene.ts";

type ChartProps = {
  /** The first one is drawn strong. Oldest points first. */
  lines: readonly Line[];
  unit: Unit;
  height: number;
  /** A level that is marked, with its words. */
  mark?: { readonly text: string; readonly value: number } | null;
};

/**
 * Lines over time, as wide as their place. A pointer or a finger reads one instant. What it shows
 * must be said in words beside it.
 */
export function Chart({ lines, unit, height, mark = null }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [pointer, setPointer] = useState<number | null>(null);
  useEffect(() => {
    const target = place.current;
    if (target === null) return undefined;
    const resized = new ResizeObserver(() => setWidth(target.clientWidth));
    resized.observe(target);
    return () => resized.disconnect();
  }, []);
  const scene = useMemo(
    () => (width < 100 ? null : sceneOf(lines, { unit, width, height })),
    [lines, unit, width, height],
  );
  const point = ({ clientX, currentTarget }: PointerEvent) =>
    setPointer(clientX - currentTarget.getBoundingClientRect().left);
  return (
    // The height is there before the line: what moves between press and release takes no click.
    <div ref={place} className="chart" style={{ height }} aria-hidden="true">
      {scene === null ? null : (
        <svg
          width={width}
          height={height}
          onPointerMove={point}
          onPointerDown={point}
          onPointerLeave={() => setPointer(null)}
        >
          <Axes scene={scene} unit={unit} height={height} />
          <path className="bars" d={scene.bars} />
          {scene.paths.length > 1 ? null : (
            <path
              className="area"
              d={`${scene.paths[0] ?? ""}L${scene.right} ${scene.bottom}H0Z`}
            />
          )}
          {scene.paths.toReversed().map((path, index) => (
            <path
              key={lines.at(-1 - index)?.name}
              className={index === scene.paths.length - 1 ? "line main" : "line"}
              d={path}
            />
          ))}
          <Marks scene={scene} last={lines[0]?.points.at(-1)?.value} mark={mark} unit={unit} />
          {pointer === null ? null : <Cross scene={scene} pointer={pointer} />}
        </svg>
      )}
      {scene === null || pointer === null ? null : (
        <Readout scene={scene} pointer={pointer} lines={lines} unit={unit} />
      )}
    </div>
  );
}

function Axes({ scene, unit, height }: { scene: Scene; unit: Unit; height: number }) {
  const { xs, ys, x, y, right, instantLabel } = scene;
  return (
    <>
      {ys.map((value) => (
        <g key={value}>
          <path className="grid" d={`M0 ${y(value)}H${right}`} />
          <text x={right + 10} y={y(value) + 4}>
            {valueText(value, unit)}
          </text>
        </g>
      ))}
      {xs.map((at) => (
        <text key={at} x={x(at)} y={height - 6} textAnchor="middle">
          {instantLabel(at)}
        </text>
      ))}
    </>
  );
}

type MarksProps = Pick<ChartProps, "mark" | "unit"> & { scene: Scene; last: number | undefined };

/** The last value as a tag at the axis, and the marked level as a dashed line. */
function Marks({ scene: { y, right, low, high }, last, mark, unit }: MarksProps) {
  return (
    <>
      {mark && mark.value >= low && mark.value <= high ? (
        <>
          <path className="mark" d={`M0 ${y(mark.value)}H${right}`} />
          <text x={right - 4} y={y(mark.value) + 14} textAnchor="end">
            {mark.text}
          </text>
        </>
      ) : null}
      {last === undefined || unit !== "%" ? null : (
        <>
          <path className="last" d={`M0 ${y(last)}H${right}`} />
          <rect className="tag" x={right + 4} y={y(last) - 10} width="50" height="20" rx="4" />
          <text className="tag-text" x={right + 10} y={y(last) + 4}>
            {last.toFixed(1)}%
          </text>
        </>
      )}
    </>
  );
}

function Cross({ scene, pointer }: { scene: Scene; pointer: number }) {
  const { at, values } = scene.read(pointer);
  const [value] = values;
  return (
    <>
      <path className="mark" d={`M${scene.x(at)} 0V${scene.bottom}`} />
      {value === null || value === undefined ? null : (
        <circle cx={scene.x(at)} cy={scene.y(value)} r="4" />
      )}
    </>
  );
}

type ReadoutProps = Pick<ChartProps, "lines" | "unit"> & { scene: Scene; pointer: number };

/** The instant under the pointer, on the side of it that has room. */
function Readout({ scene, pointer, lines, unit }: ReadoutProps) {
  const { at, values } = scene.read(pointer);
  const texts = lines.flatMap(({ name }, index) => {
    const value = values[index] ?? null;
    return value === null ? [] : [`${name} ${valueText(value, unit)}`.trim()];
  });
  const x = scene.x(at);
  const isLate = x > scene.right / 2;
  const transform = `translateX(${x + (isLate ? -10 : 10)}px) translateX(${isLate ? "-100%" : "0"})`;
  return (
    <p className="readout" style={{ transform }}>
      {[instantText(at), ...texts].join(" · ")}
    </p>
  );
}
