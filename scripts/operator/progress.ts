/** Prints to stderr that a slow command is still running. */
const FIRST_MS = 2_000;
const NEXT_MS = 10_000;

export function reportProgress(name: string) {
  const start = performance.now();
  let reached = "";
  const report = () => {
    const seconds = Math.round((performance.now() - start) / 1_000);
    console.error(`${name}: still running after ${seconds} s${reached}`);
    timer = setTimeout(report, NEXT_MS);
  };
  let timer = setTimeout(report, FIRST_MS);
  return {
    /** How far the command has come, for the next report. */
    at: (where: string): void => {
      reached = `, ${where}`;
    },
    stop: () => clearTimeout(timer),
  };
}
