/** Prints to stderr that a slow command is still running. */
const FIRST_MS = 2_000;
const NEXT_MS = 10_000;

/** Returns a function that stops the reports. */
export function reportProgress(name: string): () => void {
  const start = performance.now();
  const report = () => {
    console.error(
      `${name}: still running after ${Math.round((performance.now() - start) / 1_000)} s`,
    );
    timer = setTimeout(report, NEXT_MS);
  };
  let timer = setTimeout(report, FIRST_MS);
  return () => clearTimeout(timer);
}
